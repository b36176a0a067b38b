package sqldb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
)

// SQLite knows when a page is malformed, not when a bit of a row has turned. So
// each page of the database file ends in a sum of itself, which is written with
// the page and looked at whenever the page is read. SQLite leaves the last bytes
// of a page to programs that ask for them in the header, and never looks there. The
// write-ahead log has sums of its own; see logdamage.go.
const (
	pageSize = 4096
	// sumSize is what a page gives up: CRC-32C of the rest, then the page's number,
	// so that a page that was written to the wrong place is found as well.
	sumSize = 8
)

// castagnoli is the polynomial that processors compute: a page takes 0.2 µs.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// putPageSum writes the sum of a page, the first being number 1, into its end.
func putPageSum(page []byte, number uint32) {
	end := page[pageSize-sumSize:]
	binary.BigEndian.PutUint32(end[4:], number)
	binary.BigEndian.PutUint32(end, pageSum(page))
}

func pageSum(page []byte) uint32 {
	sum := crc32.Update(0, castagnoli(), page[:pageSize-sumSize])
	return crc32.Update(sum, castagnoli(), page[pageSize-4:])
}

// goodPage reports whether a page is what was written to this place.
func goodPage(page []byte, number uint32) bool {
	end := page[pageSize-sumSize:]
	return binary.BigEndian.Uint32(end[4:]) == number && binary.BigEndian.Uint32(end) == pageSum(page)
}

// firstPage is an empty database whose pages have room for their sums. SQLite
// takes page size and room from here.
func firstPage(applicationID int32) []byte {
	page := make([]byte, pageSize)
	copy(page, "SQLite format 3\x00")
	binary.BigEndian.PutUint16(page[16:], pageSize)
	page[18], page[19] = 1, 1                 // versions of the format; the first connection sets the log's
	page[20] = sumSize                        // bytes at the end of each page that are not SQLite's
	page[21], page[22], page[23] = 64, 32, 32 // fixed by the format
	binary.BigEndian.PutUint32(page[28:], 1)  // pages in the file
	binary.BigEndian.PutUint32(page[44:], 4)  // format of the schema
	binary.BigEndian.PutUint32(page[56:], 1)  // UTF-8
	binary.BigEndian.PutUint32(page[68:], uint32(applicationID))
	page[100] = 13 // a leaf of a table, without cells
	binary.BigEndian.PutUint16(page[105:], pageSize-sumSize)
	putPageSum(page, 1)
	return page
}

// damagedPage names the first page of a file that is not what was written, for
// people. Pages of which the log has a newer copy may be found, too.
func damagedPage(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	page := make([]byte, pageSize)
	for number := uint32(1); ; number++ {
		_, err := io.ReadFull(f, page)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("page %d: %w", number, err)
		case !goodPage(page, number):
			return fmt.Errorf("page %d (at byte %d) does not match its checksum", number, int64(number-1)*pageSize)
		}
	}
}
