package queue_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// childArg makes the test binary be an agent's queue at work, until it is
// killed: argv = binary, childArg, path.
const childArg = "queue-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == childArg {
		if err := child(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child goes on where the queue stands: it accepts orders, starts and finishes
// what was accepted, cancels and frees. It says each step on stdout when it is
// durable, never before.
func child(path string) error {
	q, err := queue.Open(context.Background(), queue.Config{Path: path})
	if err != nil {
		return err
	}
	if _, err := q.Begin(context.Background(), queue.Now{Boot: "boot"}); err != nil {
		return err
	}
	p, err := q.Positions(context.Background())
	if err != nil {
		return err
	}
	open, err := q.Unfinished(context.Background())
	if err != nil {
		return err
	}
	for _, act := range open {
		if err := drive(q, act); err != nil {
			return err
		}
	}
	at := stream.Find(p.Have, protocol.StreamOrder)
	for {
		n := at.N + 1
		o := numbered(n)
		item, err := json.Marshal(o.Action)
		if err != nil {
			return err
		}
		at = stream.Next(at, item)
		act, fresh, err := acceptOrder(context.Background(), q, at, o, now)
		if err != nil {
			return err
		}
		if !fresh {
			return fmt.Errorf("order %d was known already", n)
		}
		fmt.Println("accepted", n)
		if err := drive(q, act); err != nil {
			return err
		}
		if n%7 == 0 {
			if err := free(q); err != nil {
				return err
			}
		}
	}
}

// drive brings an action to its end.
func drive(q *queue.Queue, act queue.Action) (err error) {
	if act.State == protocol.StateNew {
		if act, err = q.Start(context.Background(), act.ID, queue.Change{}, now); err != nil {
			return err
		}
		fmt.Println("started", act.AcceptSeq)
	}
	if act.State == protocol.StateRunning {
		if _, err = finish(q, context.Background(), act.ID, queue.Step{Event: protocol.EventSucceed}, now); err != nil {
			return err
		}
		fmt.Println("finished", act.AcceptSeq)
	}
	return nil
}

// free receipts everything that was sent.
func free(q *queue.Queue) error {
	p, err := q.Positions(context.Background())
	if err != nil {
		return err
	}
	sent := stream.Find(p.Sent, protocol.StreamReport)
	if _, err := q.Freed(context.Background(), sent, []byte(strconv.FormatUint(sent.N, 10))); err != nil {
		return err
	}
	if err := q.Flush(context.Background()); err != nil {
		return err
	}
	fmt.Println("freed", sent.N)
	return nil
}

func numbered(n uint64) queue.Order {
	o := order(1)
	o.Action = protocol.NewActionID(int64(n), [10]byte{1})
	if n%2 == 0 {
		o.Begin = &queue.Change{Put: []queue.Container{{CTID: ctid(1), Name: "web", Runtime: strconv.FormatUint(n, 10)}}}
	}
	return o
}

// TestKill kills an agent's queue with SIGKILL at random moments: whatever it
// said is there, no order was taken twice, none was left out, and every action
// has exactly the reports of its life, in a chain without a gap.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q, err := queue.Create(t.Context(), queue.Config{Path: path}, store)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.SawTerm(t.Context(), protocol.Term{Ring: 1, Counter: 1}, theirs, nil); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]uint64{}
	for round := range 12 {
		killOnce(t, self, path, said)
		check(t, path, uint64(round+1), said)
	}
	if said["accepted"] < 12 || said["freed"] == 0 {
		t.Errorf("the rounds came to no more than %v", said)
	}
}

// killOnce runs a child and kills it after it has said a random number of lines.
func killOnce(t *testing.T, self, path string, said map[string]uint64) {
	t.Helper()
	cmd := exec.Command(self, childArg, path)
	var trouble strings.Builder
	cmd.Stderr = &trouble
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := rand.IntN(40) + 1
	scan := bufio.NewScanner(out)
	for n := 0; scan.Scan(); n++ {
		what, number, _ := strings.Cut(scan.Text(), " ")
		if v, err := strconv.ParseUint(number, 10, 64); err == nil {
			said[what] = max(said[what], v)
		}
		if n == lines {
			// At any moment of the steps that follow the line.
			timer := time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
	}
	if err := cmd.Wait(); err == nil || trouble.Len() > 0 {
		t.Fatalf("the child was not killed: %v\n%s", err, trouble.String())
	}
}

// check reads a queue whose process was killed.
func check(t *testing.T, path string, starts uint64, said map[string]uint64) {
	t.Helper()
	q, err := queue.Open(t.Context(), queue.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	p, err := q.Positions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	have := stream.Find(p.Have, protocol.StreamOrder).N
	sent, freed := stream.Find(p.Sent, protocol.StreamReport), stream.Find(p.Freed, protocol.StreamReport)
	if have < said["accepted"] || freed.N < said["freed"] {
		t.Fatalf("after start %d: have %d, freed %d, but %v was said", starts, have, freed.N, said)
	}
	var open, reports uint64
	for n := range have {
		act, err := q.Action(t.Context(), numbered(n+1).Action)
		if err != nil {
			t.Fatalf("order %d of %d: %v", n+1, have, err)
		}
		if act.AcceptSeq != n+1 || n+1 <= said["finished"] && act.State != protocol.StateDone {
			t.Errorf("order %d has accept_seq %d and is %s", n+1, act.AcceptSeq, act.State)
		}
		reports += lifeOf(act, n+1)
		if !act.State.Final() {
			open++
		}
	}
	if open > 1 || reports != sent.N {
		t.Errorf("%d actions are open, %d reports were written, their lives have %d", open, sent.N, reports)
	}
	if all, err := q.Containers(t.Context()); err != nil || have >= 2 && (len(all) != 1 || all[0].Runtime != strconv.FormatUint(have/2*2, 10)) {
		t.Errorf("the change of order %d is not that of its container: %+v, %v", have/2*2, all, err)
	}
	checkChain(t, q, freed, sent)
}

// lifeOf is how many reports an action has by now.
func lifeOf(act queue.Action, n uint64) uint64 {
	reports := uint64(1)
	if n%2 == 1 && act.State != protocol.StateNew {
		reports++ // NEW and RUNNING are told apart
	}
	if act.State.Final() {
		reports++
	}
	return reports
}

// checkChain follows the outbox from what was freed to what was sent.
func checkChain(t *testing.T, q *queue.Queue, freed, sent protocol.Position) {
	t.Helper()
	rows, err := q.Outbox(t.Context(), protocol.StreamReport, 1, sent.N)
	if err != nil {
		t.Fatal(err)
	}
	at := freed
	for _, row := range rows {
		at = stream.Next(at, row.Item)
		if at.N != row.N {
			t.Fatalf("row %d follows %d", row.N, at.N-1)
		}
	}
	if at != sent {
		t.Errorf("the outbox ends at %d, %d was sent", at.N, sent.N)
	}
}
