package image

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/protocol"
)

// Bounds of what an image server tells, in bytes. That of all distributions has 5 MB.
const (
	maxStreamIndex = 1 << 20
	maxProducts    = 64 << 20
)

// streamIndex names the lists of a server.
type streamIndex struct {
	Index map[string]struct {
		DataType string `json:"datatype"`
		Path     string `json:"path"`
	} `json:"index"`
}

// products is a list of images.
type products struct {
	Products map[string]struct {
		Aliases  string `json:"aliases"`
		Arch     string `json:"arch"`
		Versions map[string]struct {
			Items map[string]streamItem `json:"items"`
		} `json:"versions"`
	} `json:"products"`
}

// streamItem is a file of an image.
type streamItem struct {
	Type   string `json:"ftype"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// rootTypes are the forms of a root directory that can be unpacked, the best first.
var rootTypes = []string{"root.tar.zst", "root.tar.gz", "root.tar.xz", "root.tar"}

// parseProducts finds the file of an image in a list: the newest version for this
// machine, unless one is named.
func parseProducts(raw []byte, alias, version string) (item streamItem, of string, err error) {
	var p products
	if err := json.Unmarshal(raw, &p); err != nil {
		return item, "", fmt.Errorf("%w: reading the list of images: %w", ErrImage, err)
	}
	mine, others := false, false
	for _, one := range p.Products {
		if !slices.Contains(strings.Split(one.Aliases, ","), alias) {
			continue
		}
		if one.Arch != runtime.GOARCH {
			others = true
			continue
		}
		mine = true
		for v, files := range one.Versions {
			if version != "" && v != version || v < of {
				continue
			}
			for _, i := range files.Items {
				rank := slices.Index(rootTypes, i.Type)
				if rank >= 0 && (v != of || rank < slices.Index(rootTypes, item.Type)) {
					item, of = i, v
				}
			}
		}
	}
	switch {
	case item.Type != "":
		return item, of, nil
	case others && !mine:
		return item, "", fmt.Errorf("%w: %w: the server has %s for other machines, and not for %s", container.ErrUnsupported, ErrImage, alias, runtime.GOARCH)
	case mine && version == "":
		return item, "", fmt.Errorf("%w: the server has no archive of %s: want one of %v", ErrImage, alias, rootTypes)
	case mine:
		return item, "", fmt.Errorf("%w: the server has no version %s of %s as an archive", ErrImage, version, alias)
	}
	return item, "", fmt.Errorf("%w: the server has no %s; its images are called as debian/12", ErrImage, alias)
}

// fromServer takes an image from an image server: the index names lists, a list names
// images by their aliases, with the digest and size of each file.
func (s *Store) fromServer(ctx context.Context, store *blob.Store, w wish) (Record, error) {
	c := s.cfg.Registries.client()
	defer c.CloseIdleConnections()
	base := w.from.server.String() + "/"
	raw, err := fetchSmall(ctx, c, base+"streams/v1/index.json", maxStreamIndex)
	if err != nil {
		return Record{}, err
	}
	var index streamIndex
	if err := json.Unmarshal(raw, &index); err != nil {
		return Record{}, fmt.Errorf("%w: reading the index of the server: %w", ErrImage, err)
	}
	var last error
	for _, list := range index.Index {
		if list.DataType != "image-downloads" || !clean(list.Path) {
			continue
		}
		if raw, err = fetchSmall(ctx, c, base+list.Path, maxProducts); err != nil {
			return Record{}, err
		}
		item, version, err := parseProducts(raw, w.from.alias, w.from.version)
		if err != nil {
			last = err
			continue
		}
		r, err := s.takeItem(ctx, store, c, base, w, item)
		r.Version = version
		return r, err
	}
	return Record{}, cmp.Or(last, fmt.Errorf("%w: the server has no list of images", ErrImage))
}

// takeItem fetches a root directory.
func (s *Store) takeItem(ctx context.Context, store *blob.Store, c *http.Client, base string, w wish, item streamItem) (Record, error) {
	var d protocol.Digest
	if err := d.UnmarshalText([]byte(item.SHA256)); err != nil || !clean(item.Path) {
		return Record{}, fmt.Errorf("%w: the server names a file without a digest, or out of its place", ErrImage)
	}
	if item.Size < 1 || item.Size > s.cfg.MaxBytes {
		return Record{}, fmt.Errorf("%w: it is larger than the %d bytes that images of this host may have", ErrImage, s.cfg.MaxBytes)
	}
	part := v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: item.SHA256}, Size: item.Size}
	err := fetchPart(ctx, store, part, meter(w.reference, item.Size, w.told), func(ctx context.Context, header http.Header) (*http.Response, error) {
		return get(ctx, c, base+item.Path, header, http.StatusOK, http.StatusPartialContent)
	})
	if err != nil {
		return Record{}, err
	}
	return s.takeRoot(store, d, item.Size)
}

// fetchSmall fetches a list.
func fetchSmall(ctx context.Context, c *http.Client, address string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	resp, err := get(ctx, c, address, nil, http.StatusOK)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%w: %s has more than %d bytes", ErrImage, address, most)
	}
	return b, err
}

// afterStall ends a transfer in which nothing comes any more.
func afterStall(cancel context.CancelCauseFunc) *time.Timer {
	return time.AfterFunc(stallTime+answerTime, func() { cancel(errStalled) })
}
