package sqldb

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite reaches its files through a table of C functions, which the driver has
// as Go functions over addresses of C memory. The layer of this file is the
// system's table with one difference: pages of database files get their sums on
// the way out, and are held to them on the way in.

// layerName is the layer's name in SQLite's list.
const layerName = "hostler"

// fileSystem is the layer. It lies in C memory for as long as the process lives.
type fileSystem struct {
	ours sqlite3.Tsqlite3_vfs
	open uintptr // the system's
	size uintptr // of what the system keeps for an open file
}

// fileTable lies behind what the system keeps for an open file, whose methods
// point to it.
type fileTable struct {
	ours, system sqlite3.Tsqlite3_io_methods
	flags        int32 // what the file is
}

// The types of the functions that differ.
type (
	openFunc  = func(tls *libc.TLS, fs, name, file uintptr, flags int32, out uintptr) int32
	readFunc  = func(tls *libc.TLS, file, into uintptr, size int32, at int64) int32
	writeFunc = func(tls *libc.TLS, file, from uintptr, size int32, at int64) int32
)

// useLayer makes the layer known to SQLite, once in a process.
var useLayer = sync.OnceValue(func() error {
	tls := libc.NewTLS() // kept, as the layer is
	system := (*sqlite3.Tsqlite3_vfs)(pointer(sqlite3.Xsqlite3_vfs_find(tls, 0)))
	memory := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(fileSystem{})))
	name, err := libc.CString(layerName)
	if err != nil || system == nil || memory == 0 {
		return errors.Join(errors.New("starting SQLite: no memory, or no file system"), err)
	}
	l := (*fileSystem)(pointer(memory))
	*l = fileSystem{ours: *system, open: system.FxOpen, size: uintptr(system.FszOsFile+7) &^ 7}
	l.ours.FpNext, l.ours.FzName, l.ours.FxOpen = 0, name, address(layerOpen)
	l.ours.FszOsFile = int32(l.size + unsafe.Sizeof(fileTable{}))
	if rc := sqlite3.Xsqlite3_vfs_register(tls, memory, 0); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("starting SQLite: code %d", rc)
	}
	return nil
})

// layerOpen opens a file as the system does. Of a database file it then takes
// reading and writing over.
func layerOpen(tls *libc.TLS, fs, name, file uintptr, flags int32, out uintptr) int32 {
	l := (*fileSystem)(pointer(fs))
	rc := function[openFunc](l.open)(tls, fs, name, file, flags, out)
	f := (*sqlite3.Tsqlite3_file)(pointer(file))
	database := flags&sqlite3.SQLITE_OPEN_MAIN_DB != 0
	if rc != sqlite3.SQLITE_OK || f.FpMethods == 0 || !database && !faults {
		return rc
	}
	system := (*sqlite3.Tsqlite3_io_methods)(pointer(f.FpMethods))
	t := (*fileTable)(pointer(file + l.size))
	*t = fileTable{ours: *system, system: *system, flags: flags}
	t.ours.FiVersion = min(system.FiVersion, 2) // without what maps pages into memory, past us
	if database {
		t.ours.FxRead, t.ours.FxWrite = address(layerRead), address(layerWrite)
	}
	t.takeFaults()
	f.FpMethods = file + l.size
	return rc
}

func tableOf(file uintptr) *fileTable {
	return (*fileTable)(pointer((*sqlite3.Tsqlite3_file)(pointer(file)).FpMethods))
}

// layerRead reads pages that are as they were written, or fails. Looks at the
// header are let through: SQLite reads its page whole before it believes it.
func layerRead(tls *libc.TLS, file, into uintptr, size int32, at int64) int32 {
	read := function[readFunc](tableOf(file).system.FxRead)
	switch {
	case at < pageSize && size <= 100:
		return read(tls, file, into, size, at)
	case at%pageSize != 0 || size > pageSize:
		return sqlite3.SQLITE_IOERR_DATA // no page of ours is that large
	case size < pageSize:
		return readPart(tls, read, file, into, size, at)
	}
	rc := read(tls, file, into, size, at)
	if rc == sqlite3.SQLITE_OK && !goodPage(bytesAt(into, pageSize), uint32(at/pageSize+1)) {
		rc = sqlite3.SQLITE_IOERR_DATA
	}
	return rc
}

// readPart reads the beginning of a page: SQLite does so to put a page of a long
// value where the value is wanted, past its cache.
func readPart(tls *libc.TLS, read readFunc, file, into uintptr, size int32, at int64) int32 {
	page := libc.Xmalloc(tls, pageSize)
	if page == 0 {
		return sqlite3.SQLITE_IOERR_NOMEM
	}
	defer libc.Xfree(tls, page)
	rc := read(tls, file, page, pageSize, at)
	if rc == sqlite3.SQLITE_OK && !goodPage(bytesAt(page, pageSize), uint32(at/pageSize+1)) {
		rc = sqlite3.SQLITE_IOERR_DATA
	}
	if rc == sqlite3.SQLITE_OK {
		copy(bytesAt(into, int(size)), bytesAt(page, pageSize))
	}
	return rc
}

// layerWrite writes a page with its sum. What it is given is the copy that
// SQLite makes of a page in the log, or the page in memory, whose end SQLite
// does not use.
func layerWrite(tls *libc.TLS, file, from uintptr, size int32, at int64) int32 {
	if size != pageSize || at%pageSize != 0 {
		return sqlite3.SQLITE_IOERR_WRITE // SQLite writes databases by pages only
	}
	putPageSum(bytesAt(from, pageSize), uint32(at/pageSize+1))
	return function[writeFunc](tableOf(file).system.FxWrite)(tls, file, from, size, at)
}

// A function in a table is the word that a Go variable of its type holds. Only
// functions that exist once, and no closures, have an address for ever.
func address[F any](f F) uintptr            { return *(*uintptr)(unsafe.Pointer(&f)) }
func function[F any](address uintptr) F     { return *(*F)(unsafe.Pointer(&address)) }
func bytesAt(address uintptr, n int) []byte { return unsafe.Slice((*byte)(pointer(address)), n) }

// pointer is an address of C memory, which the collector neither owns nor moves.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
