package image

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/image/debootstrap"
	"github.com/hostler-io/hostler/internal/blob"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
)

// parallel is how many parts of an image are fetched at a time.
const parallel = 3

// wish is what is asked for.
type wish struct {
	from      origin
	reference string
	told      func(string)
}

// pull fetches an image from where it comes from, and notes it.
func (s *Store) pull(ctx context.Context, w wish) (r Record, err error) {
	if w.from.ref != nil {
		return s.pullRegistry(ctx, w)
	}
	err = s.change(ctx, func(parts *blob.Store) (err error) {
		switch {
		case w.from.server != nil:
			r, err = s.fromServer(ctx, parts, w)
		case w.from.suite != "":
			r, err = s.fromPackages(ctx, parts, w)
		case w.from.url != nil:
			r, err = s.fromURL(ctx, parts, w)
		default:
			r, err = s.fromFile(ctx, parts, w)
		}
		if err != nil {
			return unpulled(w.reference, w.from.place(), err, err)
		}
		r.Reference = w.reference
		return s.save(w.from.key, r)
	})
	return r, err
}

// pullRegistry fetches an image from its registry, or from the first of its mirrors that
// has it.
func (s *Store) pullRegistry(ctx context.Context, asked wish) (r Record, err error) {
	ref, reference, told := asked.from.ref, asked.reference, asked.told
	err = s.change(ctx, func(parts *blob.Store) (err error) {
		var failed, last error
		for _, repo := range s.cfg.Registries.places(ref.Context()) {
			w := want{repo: repo, ref: ref, reference: reference, told: told}
			if r, err = s.pullFrom(ctx, parts, w); err == nil {
				return nil
			}
			failed, last = errors.Join(failed, err), err
			if ctx.Err() != nil {
				break
			}
		}
		return unpulled(reference, ref.Context().RegistryStr(), failed, last)
	})
	return r, err
}

// want is what is asked for, and where.
type want struct {
	repo      name.Repository
	ref       name.Reference
	reference string
	told      func(string)
}

func (s *Store) pullFrom(ctx context.Context, store *blob.Store, w want) (Record, error) {
	from, err := s.cfg.Registries.reach(ctx, w.repo)
	if err != nil {
		return Record{}, err
	}
	defer from.close()
	raw, kind, digest, err := from.manifest(ctx, w.ref.Identifier())
	if err != nil {
		return Record{}, err
	}
	if kind.IsIndex() {
		one, err := choose(raw)
		if err != nil {
			return Record{}, err
		}
		if raw, _, digest, err = from.manifest(ctx, one.Digest.String()); err != nil {
			return Record{}, err
		}
	}
	parts, err := parseManifest(raw, s.cfg.MaxBytes)
	if err != nil {
		return Record{}, err
	}
	r := Record{Reference: w.reference, Digest: digest.String(), Pulled: s.cfg.Now()}
	for _, p := range parts {
		d, err := digestOf(p.Digest)
		if err != nil {
			return Record{}, err
		}
		r.Parts = append(r.Parts, d)
		r.Bytes += p.Size
	}
	manifest, err := digestOf(digest)
	if err != nil {
		return Record{}, err
	}
	r.Parts = append([]protocol.Digest{manifest}, r.Parts...)
	if err := put(store, manifest, raw); err != nil {
		return Record{}, err
	}
	if err := fetch(ctx, store, from, parts, meter(w.reference, r.Bytes, w.told)); err != nil {
		return Record{}, err
	}
	config, err := durable.ReadFile(s.part(r.Parts[1]), maxConfig)
	if err != nil {
		return Record{}, err
	}
	if _, err := parseConfig(config); err != nil {
		return Record{}, err
	}
	return r, s.save(w.ref.Name(), r)
}

// fetch fetches the parts of an image, several at a time.
func fetch(ctx context.Context, store *blob.Store, from *source, parts []v1.Descriptor, came func(int64)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, p := range parts {
		g.Go(func() error {
			if err := from.part(ctx, store, p, came); err != nil {
				return fmt.Errorf("part %s: %w", p.Digest, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// put keeps bytes that were fetched as a whole.
func put(store *blob.Store, d protocol.Digest, raw []byte) error {
	if _, _, err := store.Size(d); err == nil {
		return nil
	}
	f, err := store.FillNew(int64(len(raw)))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(raw); err != nil {
		return err
	}
	_, err = f.Finish()
	return err
}

// meter tells how far a pull has come, once for each MiB.
func meter(reference string, total int64, told func(string)) func(int64) {
	var mu sync.Mutex
	var done int64
	last := int64(-1)
	return func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		done += n
		if now := done >> 20; now != last && told != nil {
			last = now
			told(fmt.Sprintf("pulling %s, %d of %d MiB", reference, now, (total+1<<20-1)>>20))
		}
	}
}

// unpulled says what may help against the last error of several.
func unpulled(reference, registry string, all, err error) error {
	hint := "ask for it again, which goes on where this came to"
	said := err.Error()
	refused, answered := errors.AsType[*transport.Error](err)
	unmade, packages := errors.AsType[*debootstrap.Error](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case packages:
		hint = unmade.Hint
	case errors.Is(err, ErrImage):
		hint = "choose another image"
	case errors.Is(err, blob.ErrSpace):
		hint = "remove unused images or containers, and ask for it again"
	case answered && (refused.StatusCode == 401 || refused.StatusCode == 403):
		hint = fmt.Sprintf("check the name; if the registry needs a login, write it to a file, and add \"%s=FILE\" to images.logins in the host's agent.toml", registry)
	case answered && refused.StatusCode == 404:
		hint = "check the name and the tag"
	case unknown, strings.Contains(said, "images.insecure"), strings.Contains(said, "HTTP response to HTTPS client"):
		hint = fmt.Sprintf("if the host may trust it without TLS, add %q to images.insecure in its agent.toml", registry)
	case strings.Contains(said, "no such host"), strings.Contains(said, "connection refused"), strings.Contains(said, "timeout"):
		hint = "check that the host reaches " + registry
	}
	return fmt.Errorf("pulling %s: %w; %s", reference, all, hint)
}
