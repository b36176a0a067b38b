package enrol

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"strings"
)

// english is the English word list of BIP-39: 2,048 words, no two of which
// share their first four letters, one to a line.
//
//go:embed english.txt
var english string

// wordBits is how much of a transcript's digest the four words show.
const wordBits = 44

// Words returns the four words of a transcript, as [Transcript.Bytes] writes
// it. Equal words on the screens of host and operator mean that both saw the
// same exchange.
func Words(transcript []byte) [4]string {
	list := strings.Fields(english)
	bits := digestBits(transcript, wordBits)
	var words [4]string
	for i := range words {
		words[i] = list[bits>>(wordBits-11*(i+1))&(1<<11-1)]
	}
	return words
}

// digestBits returns the first bits of SHA-256("hostler-words-1" ‖ transcript).
func digestBits(transcript []byte, bits int) uint64 {
	h := sha256.New()
	h.Write([]byte("hostler-words-1"))
	h.Write(transcript)
	return binary.BigEndian.Uint64(h.Sum(nil)) >> (64 - bits)
}
