package protocol_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// stateViolations break the payload rules of state messages and the forms of
// documents.
func stateViolations() map[string][]violation {
	p := protocol.ErrPayload
	hello := func(old, new string) func(*builder) { return edit(old, new) }
	pos := func(s protocol.StoreID, stream string, n int, h string) string {
		return fmt.Sprintf(`{"store":"%s","stream":"%s","n":%d,"h":"%s"}`, s, stream, n, h)
	}
	zero, some := protocol.Digest{}.String(), protocol.Sum(nil).String()
	hex := func(n byte) string { return nonce(n).String() }
	held := func(epoch string) string {
		return fmt.Sprintf(`{"ctid":"%s","epoch":%s,"running":true}`, aCTID, epoch)
	}
	good := held(`{"term":{"ring":1,"counter":1},"counter":1}`)
	return map[string][]violation{
		"hello": {
			{"kind_left_out", p, set("kind", "")},
			{"kind_unknown", p, set("kind", `"howdy"`)},
			{"kind_in_upper_case", p, set("kind", `"HELLO"`)},
			{"hello_left_out", p, set("hello", "")},
			{"kind_online", p, set("kind", `"online"`)},
			{"proto_zero", p, hello(`"proto":1`, `"proto":0`)},
			{"inst_left_out", p, hello(`"inst":"`+hex(0x33)+`",`, "")},
			{"store_left_out", p, hello(`"store":"`+hostStore.String()+`","sent"`, `"sent"`)},
			{"boot_empty", p, hello(`"boot":"6b1f6a2e-2f4c-4a37-8a52-0f6d3c2d7c11/1234"`, `"boot":""`)},
			{"self_fence_empty", p, hello(`"self_fence":"none"`, `"self_fence":""`)},
			{"self_fence_unknown", p, hello(`"self_fence":"none"`, `"self_fence":"maybe"`)},
			{"features_unsorted", p, hello(`["cgroup2","lxc"]`, `["lxc","cgroup2"]`)},
			{"features_not_words", p, hello(`["cgroup2","lxc"]`, `["../lxc"]`)},
			{"member_unknown", p, hello(`"proto":1`, `"prota":1,"proto":1`)},
			{"stream_of_other_direction", p, hello(`"stream":"report"`, `"stream":"order"`)},
			{"stream_twice", p, hello(`"stream":"alert"`, `"stream":"report"`)},
			{"checkpoint_too_large", p, set("hello", strings.Replace(string(must(json.Marshal(samplePresence(protocol.PresenceHello, 1, protocol.Nonce{}).Hello))),
				b64(string(sealedCheckpoint())), b64(strings.Repeat("x", protocol.MaxCheckpoint+1)), 1))},
			{"digest_of_nothing", p, hello(`"stream":"alert","n":0,"h":"`+zero, `"stream":"alert","n":0,"h":"`+some)},
		},
		"online": {{"with_hello", p, set("hello", `{"proto":1}`)}, {"kind_goodbye", p, set("kind", `"goodbye"`)}, {"kind_will", p, set("kind", `"will"`)}},
		"will":   {{"kind_hello", p, set("kind", `"hello"`)}},
		"heartbeat": {
			{"part_zero", p, set("part", "0")}, {"part_beyond", p, set("part", "2")}, {"parts_zero", p, set("parts", "0")},
			{"host_left_out", p, set("host", "")}, {"as_of_zero", p, set("as_of", "0")}, {"delta", p, set("base", "1")},
			{"memory_negative", p, edit(`"memory_bytes":1`, `"memory_bytes":-1`)},
			{"container_without_name", p, edit(`"name":"web"`, `"name":""`)},
			{"container_without_state", p, edit(`"state":"running"`, `"state":""`)},
			{"alert_without_severity", p, edit(`"severity":"warning"`, `"severity":""`)},
			{"audit_of_another_stream", p, edit(`"stream":"audit"`, `"stream":"report"`)},
			{"audit_on_another_page", p, func(m *builder) { set("part", "2")(m); set("parts", "2")(m); set("host", "")(m) }},
			{"failures_negative", p, edit(`"name":"web"`, `"failures":-1,"name":"web"`)},
		},
		"lease": {
			{"number_zero", p, set("number", "0")}, {"boot_left_out", p, set("boot", "")}, {"inst_left_out", p, set("inst", "")},
			{"container_twice", p, set("held", "["+good+","+good+"]")},
			{"epoch_zero", p, set("held", "["+held(`{"term":{"ring":1,"counter":1},"counter":0}`)+"]")},
			{"epoch_without_term", p, set("held", "["+held(`{"counter":1}`)+"]")},
			{"container_id_of_version_4", p, set("held", strings.ReplaceAll("["+good+"]", "-774b-", "-474b-"))},
		},
		"ack": {
			{"stream_of_other_direction", p, set("have", "["+pos(coStore, "report", 1, some)+"]")},
			{"stream_unknown", p, set("have", "["+pos(coStore, "orders", 1, some)+"]")},
			{"digest_missing", p, set("have", "["+pos(coStore, "order", 1, zero)+"]")},
			{"member_unknown", p, set("hove", "[]")},
			{"credit_without_action", p, edit(`"credit":[{"action":"`+anAction.String()+`",`, `"credit":[{`)},
			{"credit_attempt_zero", p, edit(`"attempt":1`, `"attempt":0`)},
			{"credit_of_output", p, edit(`"fd":"stdin"`, `"fd":"stdout"`)},
			{"credit_offset_negative", p, edit(`"offset":4096`, `"offset":-1`)},
			{"credit_window_negative", p, edit(`"window":2097152`, `"window":-1`)},
			{"credit_window_beyond_the_largest", p, edit(`"window":2097152`, `"window":2097153`)},
		},
		"grant": {
			{"ttl_zero", p, set("ttl_ms", "0")}, {"ttl_negative", p, set("ttl_ms", "-1")}, {"ttl_beyond_an_hour", p, set("ttl_ms", "3600001")},
			{"epoch_zero", p, set("held", "["+held(`{"term":{"ring":1,"counter":1},"counter":0}`)+"]")},
			{"epoch_of_a_later_term", p, set("held", "["+held(`{"term":{"ring":5,"counter":10},"counter":1}`)+"]")},
			{"epoch_of_a_later_ring", p, set("held", "["+held(fmt.Sprintf(`{"term":{"ring":%d,"counter":1},"counter":1}`, protocol.MaxInteger))+"]")},
			{"member_unknown", p, set("tttl_ms", "1")},
		},
		"receipt": {
			{"answers_left_out", p, set("answers", "")}, {"give_left_out", p, set("give", "")}, {"want_unknown", p, set("want", `["everything"]`)},
			{"credit_without_action", p, edit(`"credit":[{"action":"`+anAction.String()+`",`, `"credit":[{`)},
			{"credit_attempt_zero", p, edit(`"attempt":1`, `"attempt":0`)},
			{"credit_output_unknown", p, edit(`"fd":"stdout"`, `"fd":"stdin"`)},
			{"credit_offset_negative", p, edit(`"offset":4096`, `"offset":-1`)},
			{"credit_window_beyond_the_largest", p, edit(`"window":1048576`, `"window":8388609`)},
			{"have_of_other_direction", p, set("have", "["+pos(coStore, "order", 1, some)+"]")},
			{"audit_of_another_stream", p, edit(`"stream":"audit"`, `"stream":"report"`)},
			{"checkpoint_too_large", p, edit(b64(string(sealedCheckpoint())), b64(strings.Repeat("x", protocol.MaxCheckpoint+1)))},
			{"sent_of_other_direction", p, set("sent", "["+pos(coStore, "alert", 1, some)+"]")},
		},
		"coordinator": {
			{"member_unknown", p, set("onlime", "true")},
			{"to_one_host", protocol.ErrTo, set("to", `"host:edge-07"`)},
		},
		"ring": {
			{"type_other", protocol.ErrType, set("hostler", `"roster/1"`)}, {"fleet_other", protocol.ErrFleet, set("fleet", `"`+otherFleet.String()+`"`)},
			{"key_of_person", protocol.ErrRole, signedBy("person")}, {"key_of_coordinator", protocol.ErrRole, signedBy("coordinator")},
			{"fleet_not_second", protocol.ErrHeader, edit(`"fleet":"`+theFleet.String()+`","number":7`, `"number":7,"fleet":"`+theFleet.String()+`"`)},
			{"too_large", protocol.ErrSize, func(m *builder) { m.pad = protocol.MaxDocument }},
		},
		"revoked": {{"topic_other", protocol.ErrTopic, topic("hostler/v1/lab/fleet/revoke")}, {"key_of_owner", protocol.ErrRole, signedBy("owner")}},
		"checkpoint": {
			{"key_of_owner", protocol.ErrRole, signedBy("owner")}, {"key_of_person", protocol.ErrRole, signedBy("person")},
			{"log_left_out", p, set("log", "")}, {"log_of_everybody", p, set("log", `"*"`)}, {"store_left_out", p, set("store", "")},
			{"n_zero", p, set("n", "0")}, {"n_not_after", p, set("n", "17")}, {"digest_zero", p, set("h", `"`+zero+`"`)},
			{"ring_zero", p, set("ring", "0")}, {"term_left_out", p, set("term", "")}, {"member_unknown", p, set("m", "1")},
			{"too_large", protocol.ErrSize, func(m *builder) { m.pad = protocol.MaxCheckpoint }},
		},
		"checkpoint_of_host": {{"with_term", p, set("term", `{"ring":5,"counter":9}`)}, {"log_of_no_label", p, set("log", `"host:A"`)}},
		"approval": {
			{"key_of_coordinator", protocol.ErrRole, signedBy("coordinator")}, {"key_of_host", protocol.ErrRole, signedBy("edge-07")},
		},
	}
}

// itemViolations break headers and items of items.
func itemViolations() map[string][]violation {
	h, p := protocol.ErrHeader, protocol.ErrPayload
	ids := strings.Repeat(`"`+anAction.String()+`",`, protocol.MaxTell+1)
	return map[string][]violation{
		"order": {
			{"n_zero", h, set("n", "0")}, {"store_left_out", h, set("store", "")}, {"item_left_out", h, set("item", "")}, {"item_empty", h, set("item", `""`)},
			{"item_not_base64", h, set("item", `"e30"`)}, {"item_as_object", h, set("item", `{}`)},
			{"seq_of_a_state_message", h, set("seq", `{"inc":1,"conn":1,"k":1}`)}, {"member_unknown", h, set("priority", "1")},
			{"stream_other", protocol.ErrType, set("stream", `"control"`)}, {"stream_left_out", h, set("stream", "")},
			{"item_not_json", p, itemBytes("x")}, {"item_member_twice", p, itemBytes(`{"requester":"a","requester":"b"}`)},
			{"item_with_line_feed_is_json_but_no_order", p, itemBytes("{\n}")},
			{"item_member_unknown", p, setItem("argv", `["rm"]`)}, {"item_null", p, setItem("spec", `null`)},
			{"action_left_out", p, setItem("action", "")}, {"action_of_version_4", p, setItem("action", `"01890a5d-ac96-474b-bcce-b302099a8057"`)},
			{"requester_left_out", p, setItem("requester", "")}, {"approvals_17", p, setItem("approvals", "["+strings.Repeat(b64("{}")+",", 16)+b64("{}")+"]")},
		},
		"control_cancel": {
			{"verb_left_out", p, setItem("verb", "")}, {"verb_unknown", p, setItem("verb", `"start"`)}, {"verb_in_upper_case", p, setItem("verb", `"CANCEL"`)},
			{"action_left_out", p, setItem("action", "")}, {"with_ids", p, setItem("ids", `["`+anAction.String()+`"]`)}, {"with_since", p, setItem("since", "1")},
			{"with_order", p, setItem("order", `{"action":"`+anAction.String()+`","requester":"pia","created_ms":1}`)}, {"budget_without_heard", h, set("left_ms", "5")},
		},
		"control_preempt": {
			{"order_left_out", p, setItem("order", "")}, {"order_without_action", p, setItem("order", `{"requester":"pia","created_ms":1}`)},
			{"with_action", p, setItem("action", `"`+anAction.String()+`"`)}, {"with_ids", p, setItem("ids", `["`+anAction.String()+`"]`)}, {"with_since", p, setItem("since", "1")},
			{"budget_negative", h, set("left_ms", "-1")}, {"heard_without_number", h, set("heard", `{"inc":3,"conn":2,"k":0}`)},
		},
		"control_tell": {
			{"ids_left_out", p, setItem("ids", "")}, {"ids_empty", p, setItem("ids", "[]")}, {"ids_501", p, setItem("ids", "["+ids[:len(ids)-1]+"]")},
			{"with_action", p, setItem("action", `"`+anAction.String()+`"`)}, {"id_empty", p, setItem("ids", `[""]`)},
		},
		"control_policy": {
			{"with_action", p, setItem("action", `"`+anAction.String()+`"`)}, {"with_ids", p, setItem("ids", `["`+anAction.String()+`"]`)}, {"with_since", p, setItem("since", "1")},
		},
		"control_since": {{"since_negative", p, setItem("since", "-1")}},
		"report":        reportViolations(),
		"report_unknown": {
			{"with_reason", p, setItem("reason", `"ok"`)}, {"event_left_out", p, setItem("event", "")},
		},
		"report_policy": {
			{"with_action", p, setItem("action", `"`+anAction.String()+`"`)}, {"with_state", p, setItem("state", `"DONE"`)}, {"event_other", p, setItem("event", `"succeed"`)},
			{"policy_left_out", p, setItem("policy", "")}, {"policy_long", p, setItem("policy", b64(strings.Repeat("#", protocol.MaxToldPolicy+1)))},
		},
		"report_waits": {
			{"waits_while_running", p, setItem("state", `"RUNNING"`)}, {"waits_in_an_event", p, setItem("event", `"accept"`)},
			{"waits_for_nothing", p, setItem("waits", `{"for":""}`)}, {"waits_for_long", p, setItem("waits", `{"for":"`+strings.Repeat("x", 65)+`"}`)},
		},
		"alert": {
			{"id_left_out", p, setItem("id", "")}, {"text_left_out", p, setItem("text", "")}, {"severity_left_out", p, setItem("severity", "")},
			{"text_long", p, setItem("text", `"`+strings.Repeat("x", 4097)+`"`)}, {"item_member_unknown", p, setItem("weather", "1")},
		},
	}
}

func reportViolations() []violation {
	h, p := protocol.ErrHeader, protocol.ErrPayload
	return []violation{
		{"term_of_a_coordinator", h, set("term", `{"ring":5,"counter":9}`)}, {"revoked_of_a_coordinator", h, set("revoked", "1")},
		{"challenge_of_a_state_message", h, set("chal", `"`+nonce(1).String()+`"`)}, {"heard_of_an_order", h, set("heard", `{"inc":3,"conn":2,"k":4}`)},
		{"from_other_host", protocol.ErrFrom, set("from", `"host:edge-08"`)}, {"to_other", protocol.ErrTo, set("to", `"host:edge-08"`)},
		{"ring_ahead", protocol.ErrRing, set("ring", "8")},
		{"action_left_out", p, setItem("action", "")}, {"event_unknown", p, setItem("event", `"explode"`)}, {"event_of_coordinator", p, setItem("event", `"host_removed"`)},
		{"state_left_out", p, setItem("state", "")}, {"state_of_coordinator", p, setItem("state", `"PENDING_SCHEDULE"`)}, {"state_lost", p, setItem("state", `"LOST"`)},
		{"state_does_not_fit", p, setItem("state", `"DONE"`)}, {"reason_left_out", p, setItem("reason", "")}, {"reason_does_not_fit", p, setItem("reason", `"timeout"`)},
		{"refusal_without_code", p, func(m *builder) { setItem("event", `"refuse"`)(m); setItem("reason", "")(m) }},
		{"refusal_with_reason_of_another", p, setItem("event", `"refuse"`)},
		{"exit_left_out", p, setItem("exit", "")}, {"exit_zero", p, setItem("exit", `{"code":0,"run_ms":1}`)}, {"exit_256", p, setItem("exit", `{"code":256,"run_ms":1}`)},
		{"success_with_exit_1", p, func(m *builder) {
			for _, s := range [][2]string{{"event", `"succeed"`}, {"state", `"DONE"`}, {"reason", `"ok"`}, {"exit", `{"code":1,"run_ms":1}`}} {
				m.item.set(s[0], s[1])
			}
			m.putItem(m.item.bytes())
		}},
		{"attempt_negative", p, setItem("attempt", "-1")}, {"detail_long", p, setItem("detail", `"`+strings.Repeat("x", 4097)+`"`)},
		{"output_twice", p, setItem("output", `[{"fd":"stdout","bytes":1,"dropped":0},{"fd":"stdout","bytes":1,"dropped":0}]`)},
		{"output_unknown", p, setItem("output", `[{"fd":"stdin","bytes":1,"dropped":0}]`)},
		{"output_dropped_more_than_written", p, setItem("output", `[{"fd":"stdout","bytes":1,"dropped":2}]`)},
		{"output_dropped_beyond_end", p, setItem("output", `[{"fd":"stdout","bytes":10,"dropped":5,"drop_at":6}]`)},
	}
}
