package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hostler-io/hostler/agent/checkup"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/internal/clock"
)

// leastLife is how long the certificate of the coordinator has still to live: it is renewed
// when a third of its life is left, so less means that renewals fail.
const leastLife = 14 * 24 * time.Hour

// handshakePatience bounds the look at the broker, which is on this machine.
const handshakePatience = 5 * time.Second

// check looks for what keeps the coordinator from doing its work. One look at a time reads
// the database.
func (s *server) check(ctx context.Context) []api.Finding {
	s.looking.Lock()
	defer s.looking.Unlock()
	var degraded error
	if why := s.coord.Degraded(); why != "" {
		degraded = errors.New(why)
	}
	const log = "journalctl -u hostler-coordinator -n 50"
	return checkup.Run(ctx, checkup.Config{
		Now:  clock.Now,
		Dirs: []checkup.Dir{{Name: "state", Path: string(s.state)}},
		Needs: []checkup.Need{
			{Name: "work", Problem: degraded, Mend: "du -xh --max-depth 2 " + string(s.state), Vital: true},
			{Name: "certificate", Problem: s.lives(), Mend: log + "    # why it is not renewed"},
			{Name: "database", Problem: sqlstore.Verify(ctx, s.state.store()), Mend: "hostler-coordinator restore --help    # doc/recovery.md says how a backup is restored", Vital: true},
			{Name: "fence devices", Problem: s.fenceDevices(), Mend: "hostler fence device ls"},
			{Name: "fencing", Problem: s.waitsForFence(), Mend: "hostler fence history    # and doc/fencing.md"},
			{Name: "measurements", Problem: s.measured(), Mend: log + "    # and doc/metrics.md: InfluxDB and VictoriaMetrics"},
			{Name: "broker", Problem: s.shakesHands(ctx, s.config.MQTT.Listen), Mend: log + "    # why it does not listen at mqtt.listen; ss -ltnp names a program that does", Vital: true},
		},
	})
}

// lives tells how the certificate of broker and API ends, if that is soon.
func (s *server) lives() error {
	leaf, err := x509.ParseCertificate(s.cert.Load().Certificate[0])
	if err != nil {
		return err
	}
	if leaf.NotAfter.Sub(clock.Now()) < leastLife {
		return fmt.Errorf("it ends at %s and was not renewed", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// shakesHands connects with the broker and looks whether it shows the certificate in force.
func (s *server) shakesHands(ctx context.Context, listen string) error {
	ctx, cancel := context.WithTimeout(ctx, handshakePatience)
	defer cancel()
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	address := net.JoinHostPort(host, port)
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("hosts cannot connect: %w", err)
	}
	defer conn.Close()
	errSeen, errOther := errors.New("seen"), errors.New("it shows another certificate")
	err = tls.Client(conn, &tls.Config{
		InsecureSkipVerify: true, // it is compared with our own
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if string(raw[0]) != string(s.cert.Load().Certificate[0]) {
				return errOther
			}
			return errSeen
		},
	}).HandshakeContext(ctx)
	switch {
	case err == nil || errors.Is(err, errSeen):
		return nil
	case errors.Is(err, errOther):
		return fmt.Errorf("another program listens at %s: %w", address, err)
	}
	return fmt.Errorf("the handshake at %s fails, maybe because another program listens there: %w", address, err)
}
