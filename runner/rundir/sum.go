package rundir

import (
	"hash/crc32"
	"strings"
)

// A record ends in a sum of itself, as the last member of its JSON object: a bit
// that has turned on the disk would make another exit code, or another command,
// and either would be believed.
const (
	sumBegin = `,"crc32c":"`
	sumEnd   = `"}`
	sumSize  = len(sumBegin) + 8 + len(sumEnd)
)

// errSum tells that a record is not what was written.
const errSum = formatError("its checksum does not match")

// AppendSum adds the sum to a JSON object that is not empty and ends in '}'.
func AppendSum(object []byte) []byte {
	body := object[:len(object)-1]
	sum := sumOf(body)
	return append(append(append(body, sumBegin...), sum[:]...), sumEnd...)
}

// CheckSum returns the object that was given to AppendSum, or an error that is
// ErrFormat. White space behind the object does not count.
func CheckSum(b []byte) ([]byte, error) {
	s := strings.TrimRight(string(b), " \r\n\t")
	at := len(s) - sumSize
	if at < 1 || s[at:at+len(sumBegin)] != sumBegin || s[len(s)-len(sumEnd):] != sumEnd {
		return nil, errSum
	}
	sum := sumOf([]byte(s[:at]))
	if s[at+len(sumBegin):len(s)-len(sumEnd)] != string(sum[:]) {
		return nil, errSum
	}
	return append([]byte(s[:at]), '}'), nil
}

// sumOf is CRC-32C in hexadecimal digits.
func sumOf(b []byte) (digits [8]byte) {
	// The tables of package crc32 are for large data and take a tenth of a millisecond
	// to make, which each supervisor would do for a few hundred bytes.
	var table crc32.Table
	for i := range table {
		n := uint32(i)
		for range 8 {
			n = n>>1 ^ crc32.Castagnoli&-(n&1)
		}
		table[i] = n
	}
	n := crc32.Update(0, &table, b)
	for i := range digits {
		digits[i] = "0123456789abcdef"[n>>(28-4*i)&15]
	}
	return digits
}
