package backup

import "time"

// Still returns a store that takes a file as unchanged which has not changed for so long.
func (s Store) Still(d time.Duration) Store {
	s.still = d
	return s
}

// Index is the path of the index of a container.
var Index = Store.index

// DecodeIndex reads an index, and returns what stands in it encoded again.
func DecodeIndex(raw []byte) (again []byte, err error) {
	h, files, err := decodeIndex(raw)
	if err != nil {
		return nil, err
	}
	var paths []byte
	for name, p := range files {
		paths = appendPath(paths, name, p)
	}
	return encodeIndex(h, paths)
}
