// Package names lets the containers of a network find each other by name, and tells those
// that ask by DHCP the address that they have. It keeps a process of dnsmasq for the names of
// each network, which listens at the address of the host there and nowhere else, knows the
// containers of that network alone, and passes other questions on to the servers of the
// host; and another one for DHCP, bound to the bridge.
//
// A process is not root: of root's powers that of names has the one to listen at a low port,
// and that of DHCP also the one over the network, without which dnsmasq does not begin. It
// ends with this process, however this one ends. It reads the names from a file, which is replaced
// when they change; the process is then told to read it again, and answers meanwhile.
//
// Containers are told where to ask by a file that is mounted as their /etc/resolv.conf, see
// [Resolver].
package names

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Domain is that of all names. A container is found by its name, and by its name in it.
const Domain = "hostler"

// Program is what serves names, as PATH finds it. Package is where Debian has it.
const (
	Program = "dnsmasq"
	Package = "dnsmasq-base"
)

// The pauses between starts of a process that ends by itself. A process that has lasted
// longer than the longest pause is started again at once, and the pauses begin anew.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// patience is how many starts in a row must have failed until a network has a problem.
const patience = 3

// maxWords is how much of what a process says is kept, in bytes.
const maxWords = 512

// The files of a network, in the directory of its bridge.
const (
	hostsFile    = "hosts"
	leasesFile   = "leases"
	resolverFile = "resolv.conf"
)

// Zone is a network and the names that its containers have there.
type Zone struct {
	// Bridge is the device of the network. It may be missing, and appear later.
	Bridge string
	// Addresses are those of the host on the bridge at which it is asked.
	Addresses []netip.Addr
	// Alone keeps questions for other names on the host: they have no answer.
	Alone bool
	Hosts []Host
	// DHCP has containers be told what they have, by a process of its own.
	DHCP   bool
	Leases []Lease
}

// Lease is the address of a container in its network, whether it runs or not.
type Lease struct {
	MAC     string
	Address netip.Addr // IPv4
}

// Host is a container that runs.
type Host struct {
	Name      string // a DNS label
	Addresses []netip.Addr
}

// ErrUnreachable: the files of a network lie where not all users of the host reach them.
var ErrUnreachable = errors.New("users of the host that are not root cannot pass")

// Problem is a network whose names are not served, although they are to be, or whose DHCP is
// not.
type Problem struct {
	Bridge string
	DHCP   bool
	Cause  string // why the last process has ended, or its file is not written
}

// Servers are the processes. They are safe for concurrent use.
type Servers struct {
	program string
	dir     string
	as      *syscall.Credential
	log     *slog.Logger

	mu      sync.Mutex
	running map[job]*server
	// unwritten is why the file of a process is not as it should be.
	unwritten map[job]string
}

// job is what a process is for.
type job struct {
	bridge string
	dhcp   bool
}

// task is what a process is told: at its start, and in a file that it reads again.
type task struct {
	options    string
	file, text string
	powers     []uintptr // capabilities
}

// Find says where the program is. The error matches [exec.ErrNotFound] if it is not
// installed.
func Find() (string, error) {
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", fmt.Errorf("finding the program that serves names (Debian's package %s): %w", Package, err)
	}
	return path, nil
}

// New finds the program. The names of each network are kept in a directory of their own below
// dir, which is made when it is needed, and which all users of the host must reach.
func New(dir string, log *slog.Logger) (*Servers, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	return &Servers{program: path, dir: dir, as: unprivileged(), log: log, running: make(map[job]*server), unwritten: make(map[job]string)}, nil
}

// overflowID is the user and group that the kernel shows for those it cannot show. Debian
// names the user "nobody".
const overflowID = 65534

// unprivileged is the user of the processes: the user that the package of the program makes,
// or the user "nobody".
func unprivileged() *syscall.Credential {
	c := &syscall.Credential{Uid: overflowID, Gid: overflowID}
	for _, name := range []string{Program, "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		gid, wrong := strconv.ParseUint(u.Gid, 10, 32)
		if err == nil && wrong == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return c
}

// Serve has these zones be answered for, and no others. What has not changed is not touched.
// What is wrong with one zone keeps no other from being served, and is among the problems
// until the zone is served with its names.
func (s *Servers) Serve(zones []Zone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := make(map[job]task, len(zones))
	for _, z := range zones {
		wanted[job{z.Bridge, false}] = z.names()
		if z.DHCP {
			wanted[job{z.Bridge, true}] = z.dhcp()
		}
	}
	for j, p := range s.running {
		if w, ok := wanted[j]; !ok || w.options != p.task.options {
			p.end()
			delete(s.running, j)
		}
	}
	clear(s.unwritten)
	for j, w := range wanted {
		p := s.running[j]
		if p != nil && p.task.text == w.text {
			continue
		}
		if err := replace(filepath.Join(s.dir, j.bridge, w.file), w.text); err != nil {
			s.unwritten[j] = fmt.Sprintf("writing the %s: %v", w.file, err)
			continue
		}
		if p == nil {
			p = &server{task: w, ended: make(chan struct{})}
			s.running[j] = p
			ctx, stop := context.WithCancel(context.Background())
			p.stop = stop
			go s.keep(ctx, j.bridge, p) // end waits for it
		}
		p.task.text = w.text
		p.read()
	}
}

// Problems are the networks with a process that does not stay alive, or that could not be told
// what has changed.
func (s *Servers) Problems() (all []Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for j, cause := range s.unwritten {
		all = append(all, Problem{j.bridge, j.dhcp, cause})
	}
	for j, p := range s.running {
		if cause := p.problem(); cause != "" && s.unwritten[j] == "" {
			all = append(all, Problem{j.bridge, j.dhcp, cause})
		}
	}
	return all
}

// Close ends all processes.
func (s *Servers) Close() error {
	s.Serve(nil)
	return nil
}

// always is what each process is told.
const always = "--keep-in-foreground --conf-file=/dev/null --pid-file= --log-facility=- --user= --group= --bind-dynamic --no-hosts"

// names is what the process that serves names is told. Devices have no spaces in their names.
func (z Zone) names() task {
	o := []string{always, "--domain-needed", "--local=/" + Domain + "/"}
	for _, a := range z.Addresses {
		o = append(o, "--listen-address="+a.String())
	}
	if z.Alone {
		o = append(o, "--no-resolv")
	}
	var b strings.Builder
	for _, h := range z.Hosts {
		for _, a := range h.Addresses {
			fmt.Fprintf(&b, "%s %s.%s %s\n", a, h.Name, Domain, h.Name)
		}
	}
	return task{strings.Join(o, " "), hostsFile, b.String(), []uintptr{unix.CAP_NET_BIND_SERVICE}}
}

// dhcp is what the process is told that answers by DHCP: those that it knows, with what they
// have for good. It takes no name from anybody, keeps no file, and asks no container whether
// an address is free. In a network that is alone it names no router.
func (z Zone) dhcp() task {
	o := []string{always, "--port=0", "--interface=" + z.Bridge, "--except-interface=lo", "--leasefile-ro", "--no-ping",
		"--dhcp-ignore-names", "--dhcp-authoritative", "--dhcp-broadcast", "--domain=" + Domain, "--dhcp-option=option:dns-server,0.0.0.0"}
	for _, a := range z.Addresses {
		if a.Is4() {
			o = append(o, "--dhcp-range="+a.String()+",static")
		}
	}
	if z.Alone {
		o = append(o, "--dhcp-option=option:router")
	}
	var b strings.Builder
	for _, l := range z.Leases {
		fmt.Fprintf(&b, "%s,%s,infinite\n", l.MAC, l.Address)
	}
	return task{strings.Join(o, " "), leasesFile, b.String(), []uintptr{unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_ADMIN}}
}

// server is one process, which is started again when it ends.
type server struct {
	task  task // its text is that of [Servers]
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	process *os.Process // nil while there is none, or has said nothing
	began   time.Time   // the process that there is; zero if there is none
	fails   int         // in a row
	cause   string      // of the last one
}

func (p *server) end() {
	p.stop()
	<-p.ended
}

// read has the process read the names again. One that has said nothing yet has not read
// them, and would be ended by the signal.
func (p *server) read() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		_ = p.process.Signal(syscall.SIGHUP) // one that has ended reads them when it is started again
	}
}

func (p *server) problem() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails < patience || !p.began.IsZero() && time.Since(p.began) > longestPause {
		return ""
	}
	return p.cause
}

// keep runs a process until ctx ends.
func (s *Servers) keep(ctx context.Context, bridge string, p *server) {
	defer close(p.ended)
	// The process ends with the thread that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		if p.task.file == leasesFile && !addressed(ctx, bridge) {
			return
		}
		err := s.once(ctx, bridge, p)
		if ctx.Err() != nil {
			return
		}
		pause := p.failed(err)
		s.log.Warn("the process that serves the "+p.task.file+" of a network has ended; it is started again", "bridge", bridge, "pause", pause, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// addressed waits until a device is there and has an address of IPv4, and reports whether it
// has: a server of DHCP that begins before listens at all devices, and is never bound to that
// one.
func addressed(ctx context.Context, device string) bool {
	for !hasAddress(device) {
		select {
		case <-time.After(firstPause):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func hasAddress(device string) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	i, err := unix.NewIfreq(device)
	return err == nil && unix.IoctlIfreq(fd, unix.SIOCGIFADDR, i) == nil
}

// failed notes the end of a process, and returns the pause before the next.
func (p *server) failed(err error) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.began) > longestPause {
		p.fails = 0
	}
	p.fails++
	p.cause, p.process, p.began = err.Error(), nil, time.Time{}
	return min(firstPause<<min(p.fails-1, 6), longestPause)
}

// once runs a process to its end.
func (s *Servers) once(ctx context.Context, bridge string, p *server) error {
	file := map[string]string{hostsFile: "--addn-hosts=", leasesFile: "--dhcp-hostsfile="}[p.task.file] + filepath.Join(s.dir, bridge, p.task.file)
	args := append(strings.Fields(p.task.options), file)
	cmd := exec.CommandContext(ctx, s.program, args...)
	words := &words{}
	cmd.Stdout, cmd.Stderr = words, words
	// It has a process for each TCP connection. They end with the first of their namespace.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID,
		Credential: s.as, AmbientCaps: p.task.powers,
	}
	// It speaks for the first time when it takes signals. What has changed before, it may
	// have read or not.
	words.first = func() {
		p.mu.Lock()
		p.process = cmd.Process
		p.mu.Unlock()
		p.read()
	}
	p.mu.Lock()
	p.began = time.Now()
	p.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		words.began()
		err = cmd.Wait()
	}
	if err == nil {
		err = errors.New("it has ended by itself")
	}
	if said := words.last(); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return fmt.Errorf("%s: %w", Program, err)
}

// words are the last words of a process.
type words struct {
	first func() // called once, when it has begun and has said something

	mu        sync.Mutex
	b         []byte
	says, ran bool
}

// Write implements [io.Writer].
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.b = append(w.b, p...)
	w.b = bytes.Clone(w.b[max(0, len(w.b)-maxWords):])
	w.mu.Unlock()
	w.tell(func() { w.says = true })
	return len(p), nil
}

// began tells that the process is known.
func (w *words) began() { w.tell(func() { w.ran = true }) }

// tell calls first if a change has made both true.
func (w *words) tell(change func()) {
	w.mu.Lock()
	before := w.says && w.ran
	change()
	now := w.says && w.ran
	w.mu.Unlock()
	if now && !before {
		w.first()
	}
}

// last is the last line.
func (w *words) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(w.b)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// Resolver writes the file that containers of a network have as their /etc/resolv.conf, if it
// is not as it should be, and returns its path. dir is that of [New]. It is written in place:
// what is mounted in a container is the file, not its path. The error may be [ErrUnreachable].
func Resolver(dir, bridge, text string) (string, error) {
	path := filepath.Join(dir, bridge, resolverFile)
	if was, err := os.ReadFile(path); err == nil && string(was) == text {
		return path, nil
	}
	if err := reachable(filepath.Dir(path)); err != nil {
		return "", err
	}
	return path, errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chmod(path, 0o644))
}

// Told reports whether there is that file.
func Told(dir, bridge string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, bridge, resolverFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Asking is what containers are told that ask at this address.
func Asking(at netip.Addr) string {
	return fmt.Sprintf("# Written by Hostler: names of the containers of this network.\nnameserver %s\nsearch %s\n", at, Domain)
}

// Forget removes the files of a network that is gone.
func Forget(dir, bridge string) error { return os.RemoveAll(filepath.Join(dir, bridge)) }

// reachable makes the directory of a network, whatever the umask, and that of all networks. A
// directory above that not all users of the host may pass is ErrUnreachable.
func reachable(dir string) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Dir(dir)), 0o755); err != nil {
		return err
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		err := os.Mkdir(d, 0o755)
		if err == nil {
			err = os.Chmod(d, 0o755)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for d := dir; ; d = filepath.Dir(d) {
		i, err := os.Stat(d)
		if err != nil {
			return err
		}
		if i.Mode()&0o001 == 0 {
			return fmt.Errorf("%w %s, and names are not read there; let them: chmod o+x %s", ErrUnreachable, d, d)
		}
		if d == filepath.Dir(d) {
			return nil
		}
	}
}

// replace writes a file in one step, so a program that reads it never reads half of it.
func replace(path, text string) error {
	if err := reachable(filepath.Dir(path)); err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o644), os.Chmod(path+".new", 0o644)); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
