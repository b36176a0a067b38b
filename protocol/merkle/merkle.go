// Package merkle is the hash tree of RFC 6962, section 2.1, with SHA-256: one digest
// stands for a list, and a short path proves that a leaf stands at its place in it; pure.
package merkle

import (
	"crypto/sha256"
	"slices"
)

// Digest is the digest of a leaf or of a node.
type Digest = [sha256.Size]byte

// Leaf returns the digest of a leaf.
func Leaf(data []byte) Digest { return sha256.Sum256(append([]byte{0}, data...)) }

func node(l, r Digest) Digest { return sha256.Sum256(slices.Concat([]byte{1}, l[:], r[:])) }

// Root returns the root over leaves, of which there is at least one.
func Root(leaves []Digest) Digest {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := split(len(leaves))
	return node(Root(leaves[:k]), Root(leaves[k:]))
}

// Path proves that leaf i belongs to the root: the digests beside its way up, from the
// leaf on.
func Path(leaves []Digest, i int) []byte {
	if len(leaves) <= 1 {
		return nil
	}
	k := split(len(leaves))
	if i < k {
		other := Root(leaves[k:])
		return append(Path(leaves[:k], i), other[:]...)
	}
	other := Root(leaves[:k])
	return append(Path(leaves[k:], i-k), other[:]...)
}

// Climb follows a path up a tree of n leaves from leaf i on. It reports false if the
// path is not as long as that of the place: each place has one path.
func Climb(leaf Digest, i, n int, path []byte) (Digest, bool) {
	if i < 0 || i >= n {
		return Digest{}, false
	}
	root, rest, ok := climb(leaf, i, n, path)
	return root, ok && len(rest) == 0
}

func climb(at Digest, i, n int, path []byte) (root Digest, rest []byte, ok bool) {
	if n == 1 {
		return at, path, true
	}
	k := split(n)
	right := i >= k
	if right {
		at, path, ok = climb(at, i-k, n-k, path)
	} else {
		at, path, ok = climb(at, i, k, path)
	}
	if !ok || len(path) < len(at) {
		return at, path, false
	}
	other := Digest(path[:len(at)])
	if right {
		return node(other, at), path[len(at):], true
	}
	return node(at, other), path[len(at):], true
}

// split is the largest power of two below n, which is at least 2.
func split(n int) int {
	k := 1
	for k*2 < n {
		k *= 2
	}
	return k
}
