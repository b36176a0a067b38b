//go:build hostlertest

package sqldb

import (
	"sync"
	"sync/atomic"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

const faults = true

// Fault decides about one write to a file of a database ("write", "sync" or
// "truncate"): whether it fails, and if so as on a full disk or as on a broken
// one. It is called by the writer.
type Fault func(op string) (fails, full bool)

// inForce returns where the fault of the process is kept; nil lets everything
// through. SQLite's functions have nothing else to ask.
var inForce = sync.OnceValue(func() *atomic.Pointer[Fault] { return new(atomic.Pointer[Fault]) })

// SetFault puts a fault into force for all databases of the process, or with nil
// takes it out.
func SetFault(f Fault) {
	if f == nil {
		inForce().Store(nil)
		return
	}
	inForce().Store(&f)
}

func failing(op string, broken int32) int32 {
	f := inForce().Load()
	if f == nil {
		return sqlite3.SQLITE_OK
	}
	switch fails, full := (*f)(op); {
	case !fails:
		return sqlite3.SQLITE_OK
	case full && op != "sync":
		return sqlite3.SQLITE_FULL
	}
	return broken
}

func (t *fileTable) takeFaults() {
	t.ours.FxWrite, t.ours.FxSync, t.ours.FxTruncate = address(faultWrite), address(faultSync), address(faultTruncate)
}

func faultWrite(tls *libc.TLS, file, from uintptr, size int32, at int64) int32 {
	t := tableOf(file)
	if rc := failing("write", sqlite3.SQLITE_IOERR_WRITE); rc != sqlite3.SQLITE_OK {
		// Half of it may be there, as on a disk that ran full meanwhile.
		_ = function[writeFunc](t.system.FxWrite)(tls, file, from, size/2, at)
		return rc
	}
	if t.flags&sqlite3.SQLITE_OPEN_MAIN_DB != 0 {
		return layerWrite(tls, file, from, size, at)
	}
	return function[writeFunc](t.system.FxWrite)(tls, file, from, size, at)
}

func faultSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	if rc := failing("sync", sqlite3.SQLITE_IOERR_FSYNC); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[func(*libc.TLS, uintptr, int32) int32](tableOf(file).system.FxSync)(tls, file, flags)
}

func faultTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	if rc := failing("truncate", sqlite3.SQLITE_IOERR_TRUNCATE); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[func(*libc.TLS, uintptr, int64) int32](tableOf(file).system.FxTruncate)(tls, file, size)
}
