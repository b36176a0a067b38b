//go:build linux && cgo

package helper

/*
#cgo pkg-config: lxc
#include <stdlib.h>
#include <lxc/lxccontainer.h>

// start_command starts a container with a command of its own. The configuration can
// only hold one whose words have no blanks: liblxc splits it at each of them.
static int start_command(const char *name, const char *path, const char *log, char **argv) {
	struct lxc_container *c = lxc_container_new(name, path);
	int ok;

	if (!c)
		return 0;
	ok = c->want_close_all_fds(c, true) && c->set_config_item(c, "lxc.log.file", log) &&
	     c->set_config_item(c, "lxc.log.level", "ERROR") && c->start(c, 0, argv);
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
func startCommand(name, path, log string, argv []string) error {
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
	list := C.calloc(C.size_t(len(argv)+1), C.size_t(size)) // ends with NULL
	all = append(all, list)
	for i, a := range argv {
		*(**C.char)(unsafe.Add(list, uintptr(i)*size)) = text(a)
	}
	if C.start_command(text(name), text(path), text(log), (**C.char)(list)) == 0 {
		return errors.New("starting the container failed")
	}
	return nil
}
