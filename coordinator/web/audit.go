package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/protocol"
)

// exportPatience is how long a reader of an export may take for one line of it.
const exportPatience = time.Minute

func (h *handlers) auditLog() {
	register(h, h.get("list-audit", "/v1/audit", "Search the audit log"), h.listAudit)
	register(h, h.raw("export-audit", "/v1/audit/export", "Read the audit log with its checkpoints, to be verified", documentType,
		"Records, leaves and signed checkpoints, one to a line, as they were hashed and signed."), h.exportAudit)
	register(h, h.raw("get-checkpoint", "/v1/audit/checkpoint", "Seal the audit log and read its newest checkpoint", documentType,
		"One signed document; nothing while the log is empty."), h.checkpoint)
}

type auditRequest struct {
	Cursor string    `query:"cursor" pattern:"^[<>][0-9]{1,16}$" maxLength:"17" doc:"Only what comes behind the page that was answered with this Hostler-Next-Cursor"`
	After  uint64    `query:"after" maximum:"9007199254740991" doc:"Only records with numbers after this one, the oldest first; without it, the newest"`
	Before uint64    `query:"before" maximum:"9007199254740991" doc:"Only records with numbers before this one"`
	Since  time.Time `query:"since" doc:"Only records that are not older, by the clock of the time"`
	Until  time.Time `query:"until" doc:"Only records that are older, by the clock of the time"`
	Host   string    `query:"host" maxLength:"63" doc:"Only records about this host"`
	Actor  string    `query:"actor" maxLength:"1024" doc:"Only what this one did: token:NAME, host:ID or coordinator"`
	Verb   string    `query:"verb" maxLength:"1024" doc:"Only records with this verb, such as host.approve"`
	Object string    `query:"object" maxLength:"1024" doc:"Only records about the object of this id"`
	Limit  int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// auditAnswer is a page of the audit log.
type auditAnswer struct {
	Next string `header:"Hostler-Next-Cursor" doc:"Where the next page begins; left out: there is nothing more"`
	Body api.AuditPage
}

func (h *handlers) listAudit(ctx context.Context, in *auditRequest) (*auditAnswer, error) {
	f := journal.Filter{
		After: in.After, Before: in.Before, Host: protocol.HostID(in.Host), Actor: in.Actor, Verb: in.Verb, Object: in.Object, Limit: in.Limit,
	}
	if !in.Since.IsZero() {
		f.SinceMS = in.Since.UnixMilli()
	}
	if !in.Until.IsZero() {
		f.UntilMS = in.Until.UnixMilli()
	}
	if in.Cursor != "" {
		n, err := strconv.ParseUint(in.Cursor[1:], 10, 64)
		if err != nil {
			return nil, invalid(err)
		}
		if in.Cursor[0] == '>' {
			f.After = n
		} else {
			f.Before = n
		}
	}
	records, rest, err := h.c.Journal().Audit(ctx, f)
	out := &auditAnswer{Body: api.AuditPage{Records: list(records, auditRecordOf), Rest: rest}}
	up := in.After > 0 || strings.HasPrefix(in.Cursor, ">")
	switch {
	case rest > 0 && up:
		out.Next = fmt.Sprintf(">%d", rest)
	case rest > 0:
		out.Next = fmt.Sprintf("<%d", rest)
	case len(records) == in.Limit && up:
		out.Next = fmt.Sprintf(">%d", records[len(records)-1].N)
	case len(records) == in.Limit && records[0].N > 1:
		out.Next = fmt.Sprintf("<%d", records[0].N)
	}
	return out, err
}

func (h *handlers) checkpoint(ctx context.Context, _ *none) (*rawAnswer, error) {
	b, err := h.c.Journal().Checkpoint(ctx)
	return &rawAnswer{documentType, b}, err
}

type exportRequest struct {
	Since time.Time `query:"since" doc:"Begin with the newest checkpoint before this time"`
}

// exportAudit writes the log as it is read. A failure in the middle breaks the
// connection, and the first line says how far the log goes.
func (h *handlers) exportAudit(_ context.Context, in *exportRequest) (*huma.StreamResponse, error) {
	since := int64(0)
	if !in.Since.IsZero() {
		since = in.Since.UnixMilli()
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		ctx, stop := untilDrained(r.Context())
		defer stop()
		w.Header().Set("Content-Type", documentType)
		conn := http.NewResponseController(w)
		err := h.c.Journal().ExportAudit(ctx, since, func(line []byte) error {
			if err := conn.SetWriteDeadline(time.Now().Add(exportPatience)); err != nil {
				return err
			}
			if _, err := w.Write(line); err != nil {
				return err
			}
			_, err := io.WriteString(w, "\n")
			return err
		})
		if err != nil {
			if r.Context().Err() == nil {
				h.log.WarnContext(ctx, "an export of the audit log broke off", "err", err)
			}
			panic(http.ErrAbortHandler)
		}
		_ = conn.SetWriteDeadline(time.Time{}) // the connection may serve another request
	}}, nil
}
