//go:build linux && cgo

package helper

/*
#cgo pkg-config: lxc
#include <stdlib.h>
#include <lxc/lxccontainer.h>

// start_command starts a container with a command of its own. The configuration can
// only hold one whose words have no blanks: liblxc splits it at each of them.
// settings are pairs of a key and a value.
static int start_command(const char *name, const char *path, char **settings, char **argv) {
	struct lxc_container *c = lxc_container_new(name, path);
	int ok;

	if (!c)
		return 0;
	ok = c->want_close_all_fds(c, true);
	for (; ok && *settings; settings += 2)
		ok = c->set_config_item(c, settings[0], settings[1]);
	ok = ok && c->start(c, 0, argv);
	lxc_container_put(c);
	return ok;
}
*/
import "C"

import (
	"errors"
	"unsafe"
)

// startCommand starts the container of that name and path with a command.
func startCommand(name, path string, settings []setting, argv []string) error {
	var all []unsafe.Pointer
	text := func(s string) *C.char {
		p := C.CString(s)
		all = append(all, unsafe.Pointer(p))
		return p
	}
	defer func() {
		for _, p := range all {
			C.free(p)
		}
	}()
	size := unsafe.Sizeof((*C.char)(nil))
	texts := func(words []string) **C.char {
		list := C.calloc(C.size_t(len(words)+1), C.size_t(size)) // ends with NULL
		all = append(all, list)
		for i, w := range words {
			*(**C.char)(unsafe.Add(list, uintptr(i)*size)) = text(w)
		}
		return (**C.char)(list)
	}
	var pairs []string
	for _, s := range settings {
		pairs = append(pairs, s.key, s.value)
	}
	if C.start_command(text(name), text(path), texts(pairs), texts(argv)) == 0 {
		return errors.New("starting the container failed")
	}
	return nil
}
