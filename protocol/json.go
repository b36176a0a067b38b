package protocol

import "github.com/hostler-io/hostler/protocol/ijson"

// MaxInteger is the largest magnitude of a number in what is signed or hashed.
const MaxInteger = ijson.MaxInteger

// CheckJSON checks that b is JSON of the form of package ijson. Otherwise it returns
// [ErrJSON].
func CheckJSON(b []byte) error {
	if err := ijson.Check(b); err != nil {
		return refuse(ErrJSON, "%s", err)
	}
	return nil
}

// DecodeJSON checks b with [CheckJSON] and decodes it into v. A member that v
// does not know is [ErrJSON] too, unless lax is set: lax is for what a newer
// host tells an older coordinator (report, heartbeat, lease).
func DecodeJSON(b []byte, v any, lax bool) error {
	if err := CheckJSON(b); err != nil {
		return err
	}
	return decodeChecked(b, v, lax)
}

// decodeChecked is DecodeJSON for bytes that passed CheckJSON already.
func decodeChecked(b []byte, v any, lax bool) error {
	if err := ijson.Decode(b, v, lax); err != nil {
		return refuse(ErrJSON, "%.200s", err)
	}
	return nil
}
