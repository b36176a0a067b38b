package checkup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/internal/durable"
)

// maxSub bounds a file of subordinate ids, in bytes.
const maxSub = 1 << 20

// Shared tells which lines of files such as /etc/subuid give users of the host ids from a
// range that containers have for themselves: what such a user starts could touch what is
// the containers'. A file that is missing gives none.
func Shared(first, count uint32, files ...string) error {
	var all []error
	for _, path := range files {
		b, err := durable.ReadFile(path, maxSub)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Split(strings.TrimSpace(line), ":")
			if len(f) != 3 {
				continue
			}
			from, e1 := strconv.ParseUint(f[1], 10, 32)
			n, e2 := strconv.ParseUint(f[2], 10, 32)
			if e1 == nil && e2 == nil && from < uint64(first)+uint64(count) && uint64(first) < from+n {
				all = append(all, fmt.Errorf("%s gives %.64q the ids %d to %d, and containers have %d to %d for themselves", path, f[0], from, from+n-1, first, uint64(first)+uint64(count)-1))
			}
		}
	}
	return errors.Join(all...)
}
