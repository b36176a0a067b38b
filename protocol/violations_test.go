package protocol_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// validVectors are the samples and what the invalid ones come after.
func validVectors() []*vector {
	var list []*vector
	for _, s := range samples() {
		list = append(list, newBuilder(s).vector(s.name, ""))
	}
	variant := func(base, name string, steps ...func(*builder)) {
		m := newBuilder(sampleNamed(base))
		for _, f := range steps {
			f(m)
		}
		list = append(list, m.vector(name, ""))
	}
	inst := func(n byte) func(*builder) { return edit(nonce(0x33).String(), nonce(n).String()) }
	variant("hello", "hello_again", set("seq", `{"inc":3,"conn":2,"k":2}`), after("hello"))
	variant("hello", "hello_next_connection", set("seq", `{"inc":3,"conn":3,"k":1}`), after("hello"))
	variant("hello", "hello_next_process", set("seq", `{"inc":4,"conn":1,"k":1}`), inst(0x44), after("hello"))
	variant("hello", "hello_older_process", set("seq", `{"inc":2,"conn":9,"k":1}`), inst(0x22), after("hello"))
	variant("hello", "hello_copied_process", inst(0x11), after("hello"))
	variant("hello", "hello_will_follows", after("hello", "will"))
	variant("will", "will_then_goodbye_is_newer", after("hello"))
	variant("goodbye", "goodbye_after_will", after("hello", "will"))
	variant("heartbeat", "heartbeat_of_a_newer_host", set("weather", `{"sun":[true,false]}`))
	variant("lease", "lease_with_space_in_body", edit(`,"number":1`, ` , "number" : 1`))
	variant("report", "report_of_a_newer_host", setItem("weather", `"rain"`))
	variant("report", "report_with_escapes", setItem("detail", `"\ud83d\ude00 \u00e9 \/ \t"`))
	variant("order", "order_without_budget", set("left_ms", ""))
	variant("order", "order_of_another_key_of_a_newer_term", set("term", `{"ring":6,"counter":1}`), set("store", `"`+hostStore.String()+`"`), after("order"))
	variant("grant", "grant_line_ends", envelope("", "\n"))
	variant("grant", "grant_of_older_ring", set("ring", "6"))
	variant("approval", "approval_by_owner_as_person", signedBy("owner"))
	variant("coordinator", "coordinator_next_term", set("term", `{"ring":5,"counter":10}`))
	variant("out", "out_of_the_largest_size", set("size", strconv.Itoa(protocol.ChunkSize)), func(m *builder) {
		out := strings.Repeat(".", protocol.ChunkSize)
		m.body.set("sha256", `"`+protocol.Sum([]byte(out)).String()+`"`)
		m.attach, m.pad = []byte{}, len(out)
	})
	return list
}

// invalidVectors are all violations, each of one good message.
func invalidVectors() []*vector {
	var list []*vector
	add := func(base string, vs []violation) {
		for _, v := range vs {
			m := newBuilder(sampleNamed(base))
			v.apply(m)
			list = append(list, m.vector(base+"/"+v.name, v.want))
		}
	}
	add("grant", envelopeViolations())
	add("grant", soleEnvelopeViolations())
	add("grant", topicViolations())
	add("heartbeat", keyViolations())
	add("grant", signatureViolations())
	add("grant", jsonViolations())
	add("grant", headerViolations())
	add("grant", matchViolations())
	for base, vs := range freshViolations() {
		add(base, vs)
	}
	for base, vs := range attachmentViolations() {
		add(base, vs)
	}
	for base, vs := range stateViolations() {
		add(base, vs)
	}
	for base, vs := range itemViolations() {
		add(base, vs)
	}
	slices.SortStableFunc(list, func(a, b *vector) int {
		if c := checkOf(a.Want) - checkOf(b.Want); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// orderedViolations are those that can be combined, at least one of each check
// from 1 to 12, on a grant.
func orderedViolations() []violation {
	list := []violation{{"too_large", protocol.ErrSize, func(m *builder) { m.pad = protocol.MaxMessage }}}
	for _, from := range [][]violation{envelopeViolations(), topicViolations(), downKeyViolations(), signatureViolations(),
		orderedHeaderViolations(), matchViolations(), {{"trailing", protocol.ErrAttachment, func(m *builder) { m.attach = []byte("x") }}},
		orderedFreshViolations()} {
		list = append(list, from...)
	}
	slices.SortStableFunc(list, func(a, b violation) int { return checkOf(a.want) - checkOf(b.want) })
	return list
}

func envelopeViolations() []violation {
	g := protocol.ErrGrammar
	sig := `,"sig":"`
	return []violation{
		{"version_2", g, envelope(`{"v":1,`, `{"v":2,`)},
		{"space_before", g, envelope(`{"v":1,`, ` {"v":1,`)},
		{"space_inside", g, envelope(`{"v":1,`, `{"v":1, `)},
		{"space_after", g, lineEnd(" ")},
		{"carriage_return_after", g, lineEnd("\r")},
		{"key_in_lower_case", g, func(m *builder) {
			m.raw = append(m.raw, replacing(m.key.id.String(), strings.ToLower(m.key.id.String())))
		}},
		{"key_short", g, func(m *builder) { m.raw = append(m.raw, replacing(m.key.id.String(), m.key.id.String()[1:])) }},
		{"key_long", g, func(m *builder) { m.raw = append(m.raw, replacing(m.key.id.String(), m.key.id.String()+"0")) }},
		{"signature_not_base64", g, envelope(sig, sig+"_")},
		{"signature_with_carriage_return", g, envelope(sig, sig+"\r")},
		{"member_twice", g, envelope(`{"v":1,`, `{"v":1,"v":1,`)},
		{"space_before_body", g, envelope(`"body":{`, `"body": {`)},
		{"body_with_carriage_return", g, edit(`,"from"`, ",\r\"from\"")},
		{"body_with_line_feed", g, edit(`,"from"`, ",\n\"from\"")},
		{"too_large", protocol.ErrSize, func(m *builder) { m.pad = protocol.MaxMessage }},
	}
}

// soleEnvelopeViolations leave nothing that another step could change.
func soleEnvelopeViolations() []violation {
	g := protocol.ErrGrammar
	return []violation{
		{"signature_member_misspelt", g, envelope(`,"sig":"`, `,"sog":"`)},
		{"signature_empty", g, func(m *builder) { m.sig = append(m.sig, func([]byte) []byte { return nil }) }},
		{"signature_without_padding", g, envelope(`=","body"`, `","body"`)},
		{"signature_with_loose_bits", g, func(m *builder) { m.raw = append(m.raw, looseBits) }},
		{"signature_too_long", g, func(m *builder) {
			m.sig = append(m.sig, func(s []byte) []byte { return append(s, make([]byte, 1053)...) })
		}},
		{"body_member_misspelt", g, envelope(`,"body":{`, `,"bidy":{`)},
		{"body_before_signature", g, func(m *builder) {
			m.raw = append(m.raw, func(s string) string {
				head, body, _ := strings.Cut(s, `,"body":`)
				key, sig, _ := strings.Cut(head, `,"sig":`)
				return key + `,"body":` + body[:len(body)-1] + `,"sig":` + sig + `}`
			})
		}},
		{"body_array", g, func(m *builder) { m.edit = append(m.edit, func(s string) string { return "[" + s + "]" }) }},
		{"body_text", g, func(m *builder) { m.edit = append(m.edit, func(string) string { return `"x"` }) }},
		{"end_missing", g, func(m *builder) { m.raw = append(m.raw, func(s string) string { return strings.TrimRight(s, "}") }) }},
		{"nothing", g, func(m *builder) { m.raw = append(m.raw, func(string) string { return "" }) }},
		{"body_alone", g, func(m *builder) { m.raw = append(m.raw, func(string) string { return string(m.body.bytes()) }) }},
		{"one_byte_too_large", protocol.ErrSize, func(m *builder) { m.pad = protocol.MaxMessage + 1 - len(m.bytes()) }},
	}
}

// lineEnd puts something behind the envelope, in front of an attachment.
func lineEnd(end string) func(m *builder) {
	return func(m *builder) {
		m.raw = append(m.raw, func(s string) string {
			line, attachment, attached := strings.Cut(s, "\n")
			if attached {
				return line + end + "\n" + attachment
			}
			return line + end
		})
	}
}

// looseBits sets a bit of the last base64 digit that stands for nothing.
func looseBits(s string) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	i := strings.Index(s, `=","body"`) - 1
	return s[:i] + string(digits[strings.IndexByte(digits, s[i])+1]) + s[i+1:]
}

func topicViolations() []violation {
	id := anAction.String()
	var list []violation
	for name, s := range map[string]string{
		"other_root":       "hostler/v2/lab/host/edge-07/grant",
		"other_fleet":      "hostler/v1/prod/host/edge-07/grant",
		"other_host":       "hostler/v1/lab/host/edge-08/grant",
		"upwards":          "hostler/v1/lab/host/edge-07/lease",
		"no_such_channel":  "hostler/v1/lab/host/edge-07/orders",
		"channel_in_upper": "hostler/v1/lab/host/edge-07/Grant",
		"fleet_channel":    "hostler/v1/lab/host/edge-07/ring",
		"host_channel":     "hostler/v1/lab/fleet/grant",
		"ring_channel":     "hostler/v1/lab/fleet/ring",
		"dots":             "hostler/v1/lab/host/../grant",
		"dots_in_fleet":    "hostler/v1/../host/edge-07/grant",
		"host_in_upper":    "hostler/v1/lab/host/EDGE-07/grant",
		"host_with_space":  "hostler/v1/lab/host/edge 07/grant",
		"host_with_hyphen": "hostler/v1/lab/host/-edge-07/grant",
		"host_long":        "hostler/v1/lab/host/" + strings.Repeat("a", 64) + "/grant",
		"host_wildcard":    "hostler/v1/lab/host/+/grant",
		"host_with_nul":    "hostler/v1/lab/host/edge\x00/grant",
		"empty_level":      "hostler/v1/lab//edge-07/grant",
		"slash_before":     "/hostler/v1/lab/host/edge-07/grant",
		"slash_after":      "hostler/v1/lab/host/edge-07/grant/",
		"too_many_levels":  "hostler/v1/lab/host/edge-07/grant/" + id,
		"too_few_levels":   "hostler/v1/lab/host",
		"action_missing":   "hostler/v1/lab/host/edge-07/in",
		"action_dots":      "hostler/v1/lab/host/edge-07/in/..",
		"action_in_upper":  "hostler/v1/lab/host/edge-07/in/" + strings.ToUpper(id),
		"endless":          "hostler/v1/" + strings.Repeat("a/", 500),
	} {
		list = append(list, violation{"topic_" + name, protocol.ErrTopic, topic(s)})
	}
	list = append(list, violation{"topic_left_out", protocol.ErrTopic, func(m *builder) { m.topic, m.typ = "", protocol.TypeGrant }})
	slices.SortFunc(list, func(a, b violation) int { return strings.Compare(a.name, b.name) })
	return list
}

func keyViolations() []violation {
	return []violation{
		{"key_of_nobody", protocol.ErrUnknownKey, signedBy("nobody")},
		{"key_revoked", protocol.ErrRevokedKey, signedBy("stolen")},
		{"key_of_coordinator", protocol.ErrRole, signedBy("coordinator")},
		{"key_of_owner", protocol.ErrRole, signedBy("owner")},
		{"key_of_person", protocol.ErrRole, signedBy("person")},
		{"key_of_other_host", protocol.ErrWrongHost, signedBy("edge-08")},
		{"topic_of_other_host", protocol.ErrWrongHost, topic("hostler/v1/lab/host/edge-08/heartbeat")},
	}
}

func downKeyViolations() []violation {
	return []violation{
		{"key_of_nobody", protocol.ErrUnknownKey, signedBy("nobody")},
		{"key_revoked", protocol.ErrRevokedKey, signedBy("old coordinator")},
		{"key_of_host", protocol.ErrRole, signedBy("edge-07")},
	}
}

func signatureViolations() []violation {
	at := func(i int, b byte) func(*builder) {
		return editSig(func(s []byte) []byte { s[i] = b; return s })
	}
	return []violation{
		{"signature_of_text", protocol.ErrSignatureForm, at(sigType, 1)},
		{"signature_of_version_3", protocol.ErrSignatureForm, at(sigVersion, 3)},
		{"signature_of_other_algorithm", protocol.ErrSignatureForm, at(sigAlgorithm, 1)},
		{"signature_with_sha1", protocol.ErrSignatureForm, at(sigHash, 2)},
		{"signature_twice", protocol.ErrSignatureForm, editSig(func(s []byte) []byte { return append(s, s...) })},
		{"signature_and_more", protocol.ErrSignatureForm, editSig(func(s []byte) []byte { return append(s, 0) })},
		{"signature_cut", protocol.ErrSignatureForm, editSig(func(s []byte) []byte { return s[:len(s)-1] })},
		{"signature_flipped", protocol.ErrSignature, editSig(func(s []byte) []byte { s[sigHead+5] ^= 1; return s })},
		{"body_swapped", protocol.ErrSignature, swap(`"ring":`, `"ring" :`)},
	}
}

func jsonViolations() []violation {
	j := protocol.ErrJSON
	list := []violation{
		{"member_twice_in_body", j, edit(`,"ttl_ms"`, `,"ttl_ms":1,"ttl_ms"`)},
		{"member_twice_in_object", j, edit(`"seq":{`, `"seq":{"k":1,`)},
		{"member_twice_among_many", j, edit(`"ttl_ms"`, `"a":{`+manyMembers(40)+`,"m39":0},"ttl_ms"`)},
		{"member_in_upper_case", j, edit(`,"ttl_ms"`, `,"TTL_MS":1,"ttl_ms"`)},
		{"member_with_kelvin_sign", j, edit(`"k":`, "\"\u212a\":")},
		{"member_escaped", j, edit(`"k":`, `"\u006b":`)},
		{"member_empty", j, edit(`"k":`, `"":1,"k":`)},
		{"member_starts_with_digit", j, edit(`"k":`, `"1k":1,"k":`)},
		{"member_with_hyphen", j, edit(`"k":`, `"k-k":1,"k":`)},
		{"not_utf8", j, edit(`"ttl_ms"`, "\"a\":\"\xff\",\"ttl_ms\"")},
		{"overlong_utf8", j, edit(`"ttl_ms"`, "\"a\":\"\xc0\xaf\",\"ttl_ms\"")},
		{"surrogate_in_utf8", j, edit(`"ttl_ms"`, "\"a\":\"\xed\xa0\x80\",\"ttl_ms\"")},
		{"depth_17", j, edit(`"ttl_ms"`, `"a":`+strings.Repeat("[", 16)+strings.Repeat("]", 16)+`,"ttl_ms"`)},
		{"second_value", j, edit("", ` {}`)},
		{"comma_after_last", j, func(m *builder) {
			m.edit = append(m.edit, func(s string) string { return s[:len(s)-1] + ",}" })
		}},
		{"colon_missing", j, edit(`"ttl_ms":`, `"ttl_ms" `)},
	}
	for name, value := range map[string]string{
		"null": `null`, "high_surrogate": `"\ud800"`, "high_surrogate_then_text": `"\ud800x"`, "high_surrogate_twice": `"\ud800\ud800"`,
		"low_surrogate": `"\udc00"`, "nul": `"\u0000"`, "tab_in_text": "\"\t\"", "bad_escape": `"\x41"`, "short_escape": `"\u12"`,
		"big_number": `9007199254740992`, "big_negative_number": `-9007199254740992`, "fraction": `1.0`, "exponent": `1e3`,
		"leading_zero": `01`, "plus": `+1`, "negative_zero": `-0`, "hexadecimal": `0x10`, "single_quotes": `'a'`,
		"comment": `1/**/`, "not_a_number": `NaN`, "bare_word": `yes`, "text_that_does_not_end": `"a`, "value_missing": ``, "array_comma": `[1,]`, "array_not_closed": `[1`,
	} {
		list = append(list, violation{"value_" + name, j, edit(`"ttl_ms"`, `"a":`+value+`,"ttl_ms"`)})
	}
	slices.SortFunc(list, func(a, b violation) int { return strings.Compare(a.name, b.name) })
	return list
}

// manyMembers are n members of an object, more than are searched one by one.
func manyMembers(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"m%d":0`, i)
	}
	return strings.Join(all, ",")
}

// orderedHeaderViolations keep every member that a later check needs, and are
// such that they can be made after any other change.
func orderedHeaderViolations() []violation {
	return []violation{
		{"member_twice_in_body", protocol.ErrJSON, func(m *builder) {
			m.edit = append(m.edit, func(s string) string { return s[:len(s)-1] + `,"ring":1}` })
		}},
		{"ring_zero_is_no_header", protocol.ErrHeader, func(m *builder) { m.edit = append(m.edit, replacing(`"heard":{"inc":`, `"heard":{"unc":`)) }},
	}
}

func headerViolations() []violation {
	h := protocol.ErrHeader
	return []violation{
		{"type_not_first", h, edit(`"hostler":"grant/1","fleet":"`+theFleet.String()+`"`, `"fleet":"`+theFleet.String()+`","hostler":"grant/1"`)},
		{"fleet_not_second", h, edit(`"grant/1","fleet":"`+theFleet.String()+`","from":"coordinator"`, `"grant/1","from":"coordinator","fleet":"`+theFleet.String()+`"`)},
		{"fleet_in_upper_case", h, edit(theFleet.String(), strings.ToUpper(theFleet.String()))},
		{"fleet_short", h, edit(theFleet.String(), theFleet.String()[2:])},
		{"space_before_type", h, edit(`{"hostler"`, `{ "hostler"`)},
		{"type_left_out", h, set("hostler", "")},
		{"ring_left_out", h, set("ring", "")},
		{"ring_as_text", h, set("ring", `"7"`)},
		{"ring_negative", h, set("ring", "-7")},
		{"term_left_out", h, set("term", "")},
		{"term_without_counter", h, set("term", `{"ring":5,"counter":0}`)},
		{"term_with_unknown_member", protocol.ErrPayload, set("term", `{"ring":5,"counter":1,"cunter":2}`)},
		{"seq_left_out", h, set("seq", "")},
		{"seq_without_process", h, set("seq", `{"inc":0,"conn":1,"k":1}`)},
		{"seq_after_goodbye", h, set("seq", `{"inc":1,"conn":1,"k":2147483649}`)},
		{"heard_left_out", h, set("heard", "")},
		{"challenge_of_a_host", h, set("chal", `"`+nonce(1).String()+`"`)},
		{"budget_of_an_order", h, set("left_ms", "5")},
		{"number_of_an_item", h, set("n", "5")},
		{"action_of_a_chunk", h, set("action", `"`+anAction.String()+`"`)},
	}
}

func matchViolations() []violation {
	return []violation{
		{"type_other", protocol.ErrType, set("hostler", `"receipt/1"`)},
		{"type_newer", protocol.ErrType, set("hostler", `"grant/2"`)},
		{"fleet_other", protocol.ErrFleet, set("fleet", `"`+otherFleet.String()+`"`)},
		{"from_host", protocol.ErrFrom, set("from", `"host:edge-07"`)},
		{"from_nobody", protocol.ErrFrom, set("from", `""`)},
		{"to_other_host", protocol.ErrTo, set("to", `"host:edge-08"`)},
		{"to_everybody", protocol.ErrTo, set("to", `"*"`)},
		{"to_coordinator", protocol.ErrTo, set("to", `"coordinator"`)},
	}
}

func orderedFreshViolations() []violation {
	return []violation{
		{"ring_ahead", protocol.ErrRing, set("ring", "8")},
		{"heard_of_another_process", protocol.ErrHeard, set("heard", `{"inc":2,"conn":2,"k":4}`)},
		{"term_old", protocol.ErrTerm, func(m *builder) {
			m.body.set("term", `{"ring":5,"counter":8}`)
			m.after = []string{"coordinator"}
		}},
	}
}

// freshViolations are what checks 10 to 12 refuse, by the message they are of.
func freshViolations() map[string][]violation {
	seq := func(inc, conn, k int) func(*builder) {
		return set("seq", fmt.Sprintf(`{"inc":%d,"conn":%d,"k":%d}`, inc, conn, k))
	}
	chal := func(n byte) string { return `"` + nonce(n).String() + `"` }
	steps := func(list ...func(*builder)) func(*builder) {
		return func(m *builder) {
			for _, f := range list {
				f(m)
			}
		}
	}
	stale, challenge, fork := protocol.ErrStale, protocol.ErrChallenge, protocol.ErrFork
	return map[string][]violation{
		"grant": append(orderedFreshViolations(),
			violation{"replayed", stale, after("grant")},
			violation{"older", stale, steps(seq(9, 1, 6), after("grant"))},
			violation{"older_connection", stale, steps(seq(8, 5, 99), after("grant"))},
			violation{"heard_never_sent", protocol.ErrHeard, set("heard", `{"inc":3,"conn":2,"k":5}`)},
			violation{"term_above_its_ring", protocol.ErrHeader, set("term", `{"ring":8,"counter":9}`)},
			violation{"term_of_older_ring", protocol.ErrTerm, steps(set("term", `{"ring":4,"counter":99}`), after("grant"))},
		),
		"order": {
			{"heard_of_another_process", protocol.ErrHeard, set("heard", `{"inc":2,"conn":2,"k":4}`)},
			{"heard_left_out", protocol.ErrHeader, set("heard", "")},
			{"budget_negative", protocol.ErrHeader, set("left_ms", "-1")},
			{"term_old", protocol.ErrTerm, after("coordinator_next_term")},
			{"store_other", protocol.ErrStore, steps(set("store", `"`+hostStore.String()+`"`), after("order"))},
			{"ring_ahead", protocol.ErrRing, set("ring", "9")},
		},
		"control_preempt": {
			{"heard_of_another_process", protocol.ErrHeard, set("heard", `{"inc":2,"conn":2,"k":4}`)},
		},
		"heartbeat": {
			{"without_hello", challenge, after()},
			{"challenge_left_out", challenge, set("chal", "")},
			{"challenge_unknown", challenge, set("chal", chal(9))},
			{"challenge_of_last_connection", challenge, after("hello", "hello_next_connection")},
			{"challenge_of_last_process", challenge, after("hello", "hello_next_process")},
			{"replayed", stale, after("hello", "heartbeat")},
			{"other_connection", stale, seq(3, 1, 5)},
			{"other_process", stale, seq(4, 2, 5)},
			{"fork_of_older_process", fork, steps(seq(2, 9, 2), set("chal", chal(2)), after("hello", "hello_older_process"))},
			{"fork_of_copied_process", fork, steps(set("chal", chal(2)), after("hello", "hello_copied_process"))},
			{"fork_after_reconnect", fork, steps(seq(2, 9, 2), set("chal", chal(2)), after("hello", "hello_older_process", "hello_next_connection"))},
		},
		"will": {
			{"of_last_connection", stale, after("hello", "hello_next_connection")},
			{"of_unknown_host", stale, after()},
			{"after_goodbye", stale, after("hello", "goodbye")},
			{"replayed", stale, after("hello", "will")},
		},
		"online":  {{"after_will", stale, after("hello", "will")}},
		"receipt": {{"replayed", stale, after("receipt")}, {"older", stale, steps(seq(9, 1, 7), after("receipt"))}},
	}
}

func attachmentViolations() map[string][]violation {
	a := protocol.ErrAttachment
	digest := `"` + protocol.Sum([]byte("other")).String() + `"`
	return map[string][]violation{
		"grant":  {{"bytes_follow", a, attach("x")}, {"line_feed_follows", a, attach("\n")}},
		"report": {{"bytes_follow", a, attach("x")}},
		"ring":   {{"bytes_follow", a, attach("{}")}},
		"out": {
			{"attachment_left_out", a, func(m *builder) { m.attach = nil }},
			{"attachment_empty", a, attach("")},
			{"attachment_short", a, attach("hello\nworl")},
			{"attachment_long", a, attach("hello\nworld\n")},
			{"attachment_changed", a, attach("hello\nworlD")},
			{"digest_changed", a, set("sha256", digest)},
			{"size_of_another", a, set("size", "12")},
			{"digest_left_out", a, set("sha256", "")},
			{"action_other", protocol.ErrAction, set("action", `"`+twoAction.String()+`"`)},
			{"topic_of_other_action", protocol.ErrAction, topic("hostler/v1/lab/host/edge-07/out/" + twoAction.String())},
			{"size_zero", a, set("size", "0")},
			{"size_beyond_a_chunk", protocol.ErrHeader, set("size", "524289")},
			{"offset_negative", protocol.ErrHeader, set("offset", "-1")},
			{"gone_with_bytes", protocol.ErrHeader, set("gone", "8192")},
			{"attempt_zero", protocol.ErrHeader, set("attempt", "0")},
			{"output_unknown", protocol.ErrHeader, set("fd", `"stdin"`)},
			{"output_of_samples", protocol.ErrHeader, func(m *builder) { set("fd", `"samples"`)(m); set("offset", "0")(m) }},
			{"output_left_out", protocol.ErrHeader, set("fd", "")},
			{"member_unknown", protocol.ErrHeader, set("priority", "1")},
			{"too_large", protocol.ErrSize, func(m *builder) { m.pad = protocol.MaxChunk }},
		},
		"samples": {
			{"attachment_left_out", a, func(m *builder) { m.attach = nil }},
			{"attachment_changed", a, attach("hello\nworlD")},
			{"topic_of_other_message", protocol.ErrAction, topic("hostler/v1/lab/host/edge-07/samples/" + twoAction.String())},
			{"topic_of_other_host", protocol.ErrWrongHost, topic("hostler/v1/lab/host/edge-08/samples/" + anAction.String())},
			{"key_of_coordinator", protocol.ErrRole, signedBy("coordinator")},
			{"from_other_host", protocol.ErrFrom, set("from", `"host:edge-08"`)},
			{"output_stream", protocol.ErrHeader, set("fd", `"stdout"`)},
			{"offset_given", protocol.ErrHeader, set("offset", "1")},
			{"gone_given", protocol.ErrHeader, set("gone", "8")},
			{"size_zero", protocol.ErrHeader, set("size", "0")},
			{"attempt_zero", protocol.ErrHeader, set("attempt", "0")},
			{"too_large", protocol.ErrSize, func(m *builder) { m.pad = protocol.MaxMessage }},
		},
		"in": {
			{"attachment_left_out", a, func(m *builder) { m.attach = nil }},
			{"attachment_short", a, attach("hello\nworl")},
			{"attachment_long", a, attach("hello\nworld\n")},
			{"attachment_changed", a, attach("hello\nworlD")},
			{"digest_changed", a, set("sha256", digest)},
			{"size_of_another", a, set("size", "12")},
			{"action_other", protocol.ErrAction, set("action", `"`+twoAction.String()+`"`)},
			{"topic_of_other_action", protocol.ErrAction, topic("hostler/v1/lab/host/edge-07/in/" + twoAction.String())},
			{"topic_of_other_host", protocol.ErrTopic, topic("hostler/v1/lab/host/edge-08/in/" + anAction.String())},
			{"key_of_host", protocol.ErrRole, signedBy("edge-07")},
			{"key_of_owner", protocol.ErrRole, signedBy("owner")},
			{"size_beyond_a_chunk", protocol.ErrHeader, set("size", "524289")},
			{"offset_negative", protocol.ErrHeader, set("offset", "-1")},
			{"attempt_zero", protocol.ErrHeader, set("attempt", "0")},
			{"output_stream", protocol.ErrHeader, set("fd", `"stdout"`)},
			{"stream_left_out", protocol.ErrHeader, set("fd", "")},
			{"term_left_out", protocol.ErrHeader, set("term", "")},
			{"number_of_an_item", protocol.ErrHeader, set("n", "5")},
			{"member_unknown", protocol.ErrHeader, set("priority", "1")},
			{"ring_ahead", protocol.ErrRing, set("ring", "8")},
			{"term_old", protocol.ErrTerm, after("coordinator_next_term")},
			{"too_large", protocol.ErrSize, func(m *builder) { m.pad = protocol.MaxChunk }},
		},
	}
}

// b64 is a text as a JSON string of base64.
func b64(s string) string { return `"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"` }

// checkOf returns the number of the check of Open that gives a code, 13 for the
// payload, 0 for codes that Open never returns.
func checkOf(c protocol.Code) int {
	for i, codes := range [][]protocol.Code{
		{protocol.ErrSize},
		{protocol.ErrGrammar},
		{protocol.ErrTopic},
		{protocol.ErrUnknownKey, protocol.ErrRevokedKey, protocol.ErrRole, protocol.ErrWrongHost},
		{protocol.ErrSignatureForm},
		{protocol.ErrSignature},
		{protocol.ErrJSON, protocol.ErrHeader},
		{protocol.ErrType, protocol.ErrFleet, protocol.ErrFrom, protocol.ErrTo, protocol.ErrAction},
		{protocol.ErrAttachment},
		{protocol.ErrRing},
		{protocol.ErrStale, protocol.ErrChallenge, protocol.ErrHeard, protocol.ErrFork},
		{protocol.ErrTerm, protocol.ErrStore},
		{protocol.ErrPayload},
	} {
		if slices.Contains(codes, c) {
			return i + 1
		}
	}
	return 0
}
