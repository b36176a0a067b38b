package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/coordinator/explain"
	"github.com/hostler-io/hostler/protocol"
)

// documentPath is where the description of the API is.
const documentPath = "/v1/openapi.json"

// describe finishes the document with what its Go types cannot say: the words of the
// tables of the engines, and the arguments of each kind.
func describe(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas.Map()
	// The library registers its own error form, which is never sent.
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	for path, words := range map[string]meanings{
		"Problem.code": codes(), "Refusal.code": codes(), "Approved.code": codes(),
		"Action.state": states(), "Approved.state": states(),
		"Action.reason": reasons(),
		"Action.kind":   kindWords(), "Kind.kind": kindWords(), "NewAction.kind": kindWords(), "NewBatch.kind": kindWords(),
		"Container.state": only(container.States()), "Waits.for": only(explain.Words()),
	} {
		schema, property, _ := strings.Cut(path, ".")
		words.limit(schemas[schema].Properties[property])
	}
	features().limit(schemas["Capabilities"].Properties["features"].Items)
	var args, specs []map[string]string
	for _, k := range protocol.Kinds() {
		i, _ := protocol.KindOf(k)
		for name, form := range map[string]map[string]any{"args.": i.ArgsSchema(), "spec.": i.Schema()} {
			schemas[name+string(k)] = &huma.Schema{Extensions: form}
		}
		args = append(args, map[string]string{"$ref": schemaPrefix + "args." + string(k)})
		specs = append(specs, map[string]string{"$ref": schemaPrefix + "spec." + string(k)})
	}
	for _, request := range []string{"NewAction", "NewBatch"} {
		// Those of several kinds are alike, so more than one may fit.
		schemas[request].Properties["args"].Extensions = map[string]any{"anyOf": args}
		schemas[request].Properties["spec"].Extensions = map[string]any{
			"contentMediaType": "application/json", "contentSchema": map[string]any{"oneOf": specs},
		}
	}
	doc.Paths["/v1/actions"].Post.RequestBody.Content["application/json"].Examples = exampleActions()
	describeOthers(doc)
}

// exampleActions asks for an action of each kind.
func exampleActions() map[string]*huma.Example {
	all := make(map[string]*huma.Example)
	for _, k := range protocol.Kinds() {
		i, _ := protocol.KindOf(k)
		ask := map[string]any{"kind": k, "host": "edge-07", "args": i.ExampleArgs()}
		if i.OnContainer() || i.Creates {
			ask["name"] = "web"
		}
		all[string(k)] = &huma.Example{Summary: i.Doc, Value: ask}
	}
	return all
}

// describeOthers adds what is served beside the operations: the document itself, and
// what supervisors of the process ask.
func describeOthers(doc *huma.OpenAPI) {
	for path, o := range map[string]struct {
		id, summary, media string
		token              bool
	}{
		documentPath:     {"get-document", "This document", "application/json", false},
		"/healthz":       {"get-health", "Tell that the process is up", "text/plain; charset=utf-8", false},
		"/readyz":        {"get-readiness", "Tell whether requests can be answered; 503 with the reason if not", "text/plain; charset=utf-8", false},
		"/metrics":       {"get-metrics", "Read the metrics of the coordinator, for Prometheus", "text/plain; version=0.0.4; charset=utf-8", true},
		fleetMetricsPath: {"get-fleet-metrics", "Read what hosts last told, for Prometheus; ?label=site=lab selects hosts by their labels", "text/plain; version=0.0.4; charset=utf-8", true},
	} {
		content := map[string]*huma.MediaType{o.media: {Schema: &huma.Schema{Type: huma.TypeString}}}
		if o.media == "application/json" {
			content[o.media].Schema = &huma.Schema{} // another standard says what it holds
		}
		op := &huma.Operation{
			OperationID: o.id, Method: http.MethodGet, Path: path, Summary: o.summary,
			Responses: map[string]*huma.Response{strconv.Itoa(http.StatusOK): {Description: "It is.", Content: content}},
		}
		if o.token {
			op.Security = []map[string][]string{{bearer: {}}}
			op.Responses["default"] = doc.Paths["/v1/status"].Get.Responses["default"]
		}
		doc.AddOperation(op)
	}
}

// meanings are words and what each means; those without a meaning speak for
// themselves.
type meanings struct {
	words []string
	means map[string]string
}

// limit allows a member these words alone, and says in the document what they mean.
func (m meanings) limit(s *huma.Schema) {
	var text strings.Builder
	text.WriteString(s.Description)
	for _, w := range m.words {
		s.Enum = append(s.Enum, w)
		if means := m.means[w]; means != "" {
			fmt.Fprintf(&text, "\n- `%s`: %s", w, means)
		}
	}
	s.Description = text.String()
	s.PrecomputeMessages()
}

func only[W ~string](words []W) meanings {
	return meanings{words: list(words, func(w W) string { return string(w) })}
}

func explained[W ~string](words []W, means func(W) string) meanings {
	m := only(words)
	m.means = make(map[string]string)
	for _, w := range words {
		m.means[string(w)] = means(w)
	}
	return m
}

func states() meanings { return explained(protocol.States(), protocol.State.Meaning) }

// feature is something that the API can do, which a client may ask for by its word.
type feature struct {
	word, means string
	// paths and kinds are how those begin that it stands for; none: it is a manner of all
	// requests.
	paths, kinds []string
}

// featureTable has all of them. A word is never taken back.
func featureTable() []feature {
	return []feature{
		{word: "actions_by_kind", means: "Actions and batches are asked for by kind and args; the bytes of the spec are made here."},
		{word: "audit_until", means: "The audit log can be searched up to a time."},
		{word: "auto_approve_etags", means: "A rule that approves hosts is shown by its name and has an ETag, and changes of it take If-Match."},
		{word: "batch_at_once", means: "A batch goes in turns: so many of its actions at once, and the first failure halts the rest."},
		{word: "cursors", means: "Every list takes cursor, limit, label, state, since and until."},
		{word: "etags", means: "Answers in JSON have an ETag, and requests that read take If-None-Match."},
		{word: "fence_device_etags", means: "A fence device has an ETag, and changes of it take If-Match."},
		{word: "fields", means: "Every list takes fields: the members of its elements that are wanted."},
		{word: "idempotency_keys", means: "Requests with an Idempotency-Key take effect once."},
		{word: "if_match_required", means: "What people edit is replaced or removed only with If-Match: the ETag that was read, or *."},
		{word: "label_etags", means: "The labels of a host have an ETag, and changes of them take If-Match."},
		{word: "placement_etags", means: "The wishes of a unique container have an ETag, and changes of them take If-Match."},
		{word: "presence", means: "A host tells why it is there or not, since when, and for how long it sleeps."},

		{word: "alerts", means: "Alerts of all hosts are listed, and acknowledged.", paths: []string{"/v1/alerts", "/v1/hosts/{host}/alerts"}},
		{word: "alert_mutes", means: "Alerts are muted for a time.", paths: []string{"/v1/alert-mutes"}},
		{word: "fencing", means: "Hosts are switched off by fence devices, or confirmed to be off by persons.", paths: []string{"/v1/fence-devices", "/v1/fences"}, kinds: []string{"host.fence"}},
		{word: "alert_rules", means: "Rules of alerts are set for hosts by their labels, and take If-Match.", paths: []string{"/v1/alert-rules"}},
		{word: "approvals", means: "People approve actions by signatures.", paths: []string{"/v1/approvals", "/v1/actions/{id}/approve", "/v1/actions/{id}/deny", "/v1/keys"}},
		{word: "audit", means: "The audit log is searched, sealed and exported.", paths: []string{"/v1/audit"}, kinds: []string{"host.audit"}},
		{word: "auto_approve", means: "Hosts are approved without a person, by rules about their invites.", paths: []string{"/v1/auto-approve-rules"}},
		{word: "backups", means: "Containers are kept in signed archives, and made from them.", kinds: []string{"container.backup", "container.restore", "host.backup"}},
		{word: "batches", means: "Many hosts are asked at once, listed and followed.", paths: []string{"/v1/batches"}},
		{word: "promotions", means: "Images are made of containers, and containers of these again.", kinds: []string{"container.promote", "container.demote"}},
		{word: "clones", means: "Containers are copied on their host.", kinds: []string{"container.clone"}},
		{word: "checks", means: "The coordinator and its hosts look for what keeps them from working.", paths: []string{"/v1/check"}, kinds: []string{"host.check"}},
		{word: "contracts", means: "A container is told what to do while its host is cut off.", kinds: []string{"container.set"}},
		{word: "enrolment", means: "Hosts join by codes and are approved.", paths: []string{"/v1/enrolments", "/v1/invites", "/v1/hosts/{host}/replace"}},
		{word: "events", means: "What happens is followed as it happens, and listed by host.", paths: []string{"/v1/events", "/v1/hosts/{host}/events"}},
		{word: "drills", means: "Faults are made on a host that end by themselves.", kinds: []string{"host.drill"}},
		{word: "files", means: "Files are copied to and from hosts and containers.", kinds: []string{"host.push", "host.pull", "container.push", "container.pull"}},
		{word: "images", means: "Images of hosts are fetched, listed and removed.", kinds: []string{"image."}},
		{word: "leases", means: "Unique containers are held by one host at a time, and listed with the host that may run each.", paths: []string{"/v1/leases"}},
		{word: "placement", means: "Unique containers are placed by wishes and by what hosts have, hosts are drained, and plans are shown.", paths: []string{"/v1/placement"}},
		{word: "volumes", means: "Volumes of hosts are listed and removed.", kinds: []string{"volume."}},
		{word: "limits", means: "Limits of containers are changed while they run.", kinds: []string{"container.limit"}},
		{word: "logs", means: "Logs of containers are read.", kinds: []string{"container.logs"}},
		{word: "metrics", means: "What hosts measure is asked of them, and scraped for all.", paths: []string{"/metrics/fleet"}, kinds: []string{"host.metrics"}},
		{word: "networks", means: "Networks of hosts are made, listed, removed and cleaned up.", kinds: []string{"network."}},
		{word: "offline_preview", means: "What becomes of containers while their host is cut off is told.", paths: []string{"/v1/hosts/{host}/offline-preview"}},
		{word: "payloads", means: "What commands read is uploaded before, in parts.", paths: []string{"/v1/payloads"}},
		{word: "ports", means: "Ports of hosts lead to containers.", kinds: []string{"container.expose", "container.unexpose"}},
		{word: "policies", means: "Policies of hosts are changed by signed documents.", kinds: []string{"policy."}},
		{word: "rings", means: "Rings are read and taken into force.", paths: []string{"/v1/rings", "/v1/roster"}},
		{word: "sessions", means: "Sessions on hosts and in containers are taken part in.", paths: []string{"/v1/actions/{id}/attach"}, kinds: []string{"host.attach", "container.attach"}},
		{word: "settings", means: "Labels and limits of containers are changed as settings.", kinds: []string{"container.config"}},
		{word: "snapshots", means: "Earlier states of containers are kept and brought back.", kinds: []string{"container.snapshot", "container.rollback"}},
		{word: "tokens", means: "Tokens are made and revoked.", paths: []string{"/v1/tokens"}},
		{word: "container_upgrades", means: "Containers get other images, and their old ones back.", kinds: []string{"container.upgrade"}},
		{word: "upgrades", means: "Agents are upgraded by signed packages.", kinds: []string{"host.upgrade"}},
		{word: "viewers", means: "Certificates that read all topics are made and revoked.", paths: []string{"/v1/viewers"}},
	}
}

// features are their words, sorted, with what each means.
func features() meanings {
	means := make(map[string]string)
	for _, f := range featureTable() {
		means[f.word] = f.means
	}
	return meanings{slices.Sorted(maps.Keys(means)), means}
}

func kindWords() meanings {
	return explained(protocol.Kinds(), func(k protocol.Kind) string {
		i, _ := protocol.KindOf(k)
		return i.Doc
	})
}

// reasons are those of the table, and the codes with which a host refuses.
func reasons() meanings {
	sentences := make(map[string]string)
	for r, means := range protocol.Reasons() {
		sentences[string(r)] = means
	}
	for _, c := range protocol.Refusals() {
		sentences[string(c)] = "Its host refused it: " + c.Error() + "."
	}
	return explained(slices.Sorted(maps.Keys(sentences)), func(w string) string { return sentences[w] })
}

// codes are those of problems.
func codes() meanings {
	sentences := make(map[string]string)
	words := list(api.Codes(), func(c api.Code) string {
		sentences[c.Name] = fmt.Sprintf("(%d) %s", c.Status, c.Meaning)
		return c.Name
	})
	return meanings{words, sentences}
}

// serveDocument serves the API's description as it stands now.
func serveDocument(mux routes, doc *huma.OpenAPI) error {
	describe(doc)
	b, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	mux.HandleFunc("GET "+documentPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b) // a client that is gone needs no answer
	})
	return nil
}
