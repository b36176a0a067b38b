package api

// NextCursor is the header of a page of a list that tells where the next one begins.
const NextCursor = "Hostler-Next-Cursor"

// ContentProblem is the media type of a [Problem] (RFC 9457).
const ContentProblem = "application/problem+json"

// Problem says why a request failed. Programs decide by Code, which is stable
// and one of [Codes]. Detail and Hint are sentences for people, and may change.
type Problem struct {
	Type   string `json:"type" doc:"Always about:blank: the code tells what went wrong"`
	Title  string `json:"title" doc:"The status in words"`
	Status int    `json:"status" doc:"The status of the answer"`
	Code   string `json:"code" doc:"What went wrong, for programs"`
	Detail string `json:"detail" doc:"What went wrong, for people"`
	Hint   string `json:"hint,omitempty" doc:"What to do next"`
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// The codes of problems. [Codes] says what each means.
const (
	CodeInvalid      = "invalid"
	CodeBadReference = "bad_reference"
	CodeUnauthentic  = "unauthenticated"
	CodeDenied       = "denied"
	CodeRole         = "role_required"
	CodeNotFound     = "not_found"
	CodeUnknownHost  = "unknown_host"
	CodeMethod       = "wrong_method"
	CodeConflict     = "conflict"
	CodeExists       = "exists"
	CodeChanged      = "changed"
	CodeUnread       = "unread"
	CodeAmbiguous    = "ambiguous"
	CodeGone         = "gone"
	CodeTooLarge     = "too_large"
	CodeRange        = "range"
	CodeRateLimit    = "too_many"
	CodeInternal     = "internal"
	CodeRecovery     = "recovery"
	CodeUnavailable  = "unavailable"
	CodeTimeout      = "timeout"
)

// Code describes a code of a [Problem].
type Code struct {
	Name    string
	Status  int    // of the HTTP answer
	Meaning string // a sentence
}

// Codes returns all codes of problems. The list is closed: no answer has another.
func Codes() []Code {
	return []Code{
		{CodeInvalid, 400, "The request breaks a rule; the detail names it."},
		{CodeBadReference, 400, "The name of an action is neither an id nor at least the first or last 4 characters of one."},
		{CodeUnauthentic, 401, "The request has no valid token."},
		{CodeDenied, 403, "A rule, or the state of the host, does not permit the request."},
		{CodeRole, 403, "The role of the token does not permit the request; the detail names the role that does."},
		{CodeNotFound, 404, "The thing that the request names does not exist."},
		{CodeUnknownHost, 404, "The host that the request names does not exist."},
		{CodeMethod, 405, "The path does not take this method."},
		{CodeConflict, 409, "The state of the thing does not permit the change."},
		{CodeExists, 409, "A thing of this name or id exists already."},
		{CodeAmbiguous, 409, "More than one action has an id that begins or ends as given; the detail lists some."},
		{CodeChanged, 412, "The thing is not as If-Match says: read it again, and decide anew."},
		{CodeUnread, 428, "The change would replace what the requester may not have read: send If-Match with the ETag that was read, or If-Match: * to replace whatever it is."},
		{CodeGone, 410, "The data existed and is no longer stored."},
		{CodeTooLarge, 413, "The body is larger than the limit."},
		{CodeRange, 416, "The bytes of this range are not stored."},
		{CodeRateLimit, 429, "This address sends too many requests."},
		{CodeInternal, 500, "The server failed; its log says why."},
		{CodeRecovery, 503, "The coordinator runs on an old copy of its state and decides nothing."},
		{CodeUnavailable, 503, "The server cannot do this now; a later request may succeed."},
		{CodeTimeout, 504, "The request ended before there was an answer."},
	}
}
