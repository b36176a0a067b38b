package container

import "slices"

// Abilities are words for what a runtime can do beyond what each of them can, sorted.
// They stand among the features of a host as in "lxc.freeze".
func Abilities(r Runtime) (words []string) {
	for word, can := range map[string]bool{
		"adopt": is[Adopter](r), "clone": is[Cloner](r), "create": is[Creator](r), "hostname": is[Rehoster](r), "freeze": is[Freezer](r), "history": historian(r), "logs": is[Logger](r), "promote": is[Promoter](r), "rename": is[Renamer](r), "snapshot": is[Snapshotter](r), "overlay": shares(r), "unique": is[Holder](r), "upgrade": is[Upgrader](r),
		"subvolumes": subvolumes(r),
	} {
		if can {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return words
}

// shares reports whether new containers of an image share its files.
func shares(r Runtime) bool {
	s, ok := r.(Sharer)
	return ok && s.Alone() == ""
}

func is[T any](r Runtime) bool {
	_, ok := r.(T)
	return ok
}

// historian reports whether snapshots can be taken to another host, and come from one.
func historian(r Runtime) bool {
	h, ok := r.(Historian)
	return ok && h.KeepsHistory()
}

// subvolumes tells that the file system makes copies of a container's files at once.
func subvolumes(r Runtime) bool {
	s, ok := r.(interface{ Subvolumes() bool })
	return ok && s.Subvolumes()
}
