package local

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// payloadsPath is where bodies may be large.
const payloadsPath = "/v1/payloads/"

func isUpload(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, payloadsPath)
}

// getPayload tells whether the requester has sent an input.
func (h *handlers) getPayload(w http.ResponseWriter, r *http.Request) error {
	d, err := protocol.ParseDigest(r.PathValue("sha256"))
	if err != nil {
		return invalid("%s", err)
	}
	size, err := agent.Uploads(h.agent).Size(requester(r.Context()), d)
	if errors.Is(err, relay.ErrNoInput) {
		return newProblem(api.CodeNotFound, "you have not sent this input")
	}
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, api.Payload{SHA256: d.String(), Bytes: size, Have: size, Complete: true})
}

// putPayload takes an input as a whole: over a socket of the host there is no line that
// breaks.
func (h *handlers) putPayload(w http.ResponseWriter, r *http.Request) error {
	d, err := protocol.ParseDigest(r.PathValue("sha256"))
	if err != nil {
		return invalid("%s", err)
	}
	q := r.URL.Query()
	size, err := strconv.ParseInt(q.Get("bytes"), 10, 64)
	if err != nil || size < 1 {
		return invalid("bytes: want the size of the whole input, at least 1")
	}
	if at := q.Get("offset"); at != "" && at != "0" {
		return invalid("offset: want 0; an input is sent as a whole")
	}
	if err := agent.Uploads(h.agent).Put(r.Context(), requester(r.Context()), d, size, r.Body); err != nil {
		w.Header().Set("Connection", "close") // the rest of the body is not read
		return err
	}
	return write(w, http.StatusOK, api.Payload{SHA256: d.String(), Bytes: size, Have: size, Complete: true})
}
