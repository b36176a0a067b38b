package local

import (
	"io"
	"net/http"
	"time"
)

// exportAudit writes the host's audit log, signed by the host, line by line. A
// failure in the middle breaks the connection, so that no part of a log looks like
// a whole one.
func (h *handlers) exportAudit(w http.ResponseWriter, r *http.Request) error {
	conn := http.NewResponseController(w)
	begun := false
	err := h.agent.ExportAudit(r.Context(), func(line []byte) error {
		if !begun {
			w.Header().Set("Content-Type", "application/jsonl")
			begun = true
		}
		if err := conn.SetWriteDeadline(time.Now().Add(outputPatience)); err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
		_, err := io.WriteString(w, "\n")
		return err
	})
	switch {
	case err != nil && !begun:
		return err // nothing was written: it is an answer
	case err != nil:
		if r.Context().Err() == nil {
			h.log.WarnContext(r.Context(), "an export of the audit log broke off", "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	_ = conn.SetWriteDeadline(time.Time{}) // the connection may serve another request
	return nil
}
