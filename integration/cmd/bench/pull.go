package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/hostcmd"
)

// layered makes an image of what fill writes, in layers of about 111, 111 and 78 MB, and
// one of busybox.
const layered = "FROM scratch\nCOPY bin /bin\nCOPY srv/1* /srv/\nCOPY srv/2* /srv/\nCOPY srv/[03-9]* /srv/\nCMD [\"/bin/sleep\",\"1000000\"]\n"

// pulling is what is measured of images that come from a registry.
type pulling struct{ *bench }

// pulls compares an order that makes a container of LXC of an image that the host does not
// have, for a pull alone unpacks nothing, with podman's command line, whose pull unpacks.
// Both take the image from the same registry, and have nothing of it before.
func (b pulling) pulls(ctx context.Context) error {
	var image string
	serve := func(ctx context.Context, f *fleet) (err error) {
		image, err = withRegistry(ctx, f)
		return err
	}
	return b.apart(ctx, serve, func(b *bench, ctx context.Context) error {
		remove, err := request(protocol.Spec{Kind: protocol.KindImageRemove, Args: &protocol.ImageRemoveArgs{ImageRemove: hostcmd.ImageRemove{Image: image, Runtime: "lxc"}}})
		if err != nil {
			return err
		}
		number := 0
		return b.paired(ctx, pair{
			row: row{name: "pull_ratio", unit: shorter, target: 1.1}, n: 5, way: "an order that pulls and creates", others: "podman pull", compare: quotient,
			ours: func(ctx context.Context) (float64, error) {
				number++
				c, took, err := b.create(ctx, fmt.Sprintf("pulled-%d", number), &protocol.CreateArgs{Template: image, Runtime: "lxc"})
				if err != nil {
					return 0, err
				}
				if err := b.destroy(ctx, c); err != nil {
					return 0, err
				}
				return took, b.probe.order(ctx, remove)
			},
			theirs: func(ctx context.Context) (float64, error) {
				took, err := b.held(func() (float64, error) {
					return median(1, func() error { _, err := b.fleet.podmanCLI(ctx, "pull", "--tls-verify=false", image); return err })
				})
				if err != nil {
					return 0, err
				}
				_, err = b.fleet.podmanCLI(ctx, "rmi", image)
				return took, err
			},
		})
	})
}

// withRegistry gives a fleet podman, and Debian's docker-registry with an image, whose
// name it returns.
func withRegistry(ctx context.Context, f *fleet) (image string, err error) {
	if err := withPodman(ctx, f); err != nil {
		return "", err
	}
	address, err := freeAddress()
	if err != nil {
		return "", err
	}
	f.hostToo = fmt.Sprintf("[images]\ninsecure = [%q]\n", address)
	config := fmt.Sprintf("version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: %q\nhttp:\n  addr: %s\n", f.path("registry"), address)
	if err := os.WriteFile(f.path("registry.yml"), []byte(config), 0o600); err != nil {
		return "", err
	}
	registry := f.command(context.Background(), "docker-registry", "serve", f.path("registry.yml"))
	registry.Path = "/usr/bin/docker-registry"
	if err := f.run("registry", registry); err != nil {
		return "", err
	}
	if err := until(ctx, "the registry listens", func() bool {
		c, err := net.Dial("tcp", address)
		return err == nil && c.Close() == nil
	}); err != nil {
		return "", err
	}
	if err := fill(f.path("image")); err != nil {
		return "", err
	}
	file := filepath.Join(f.dir, "Containerfile")
	if err := os.WriteFile(file, []byte(layered), 0o600); err != nil {
		return "", err
	}
	image = address + "/site/large:1"
	for _, args := range [][]string{
		{"build", "--layers", "--file", file, "--tag", image, f.path("image")},
		{"push", "--tls-verify=false", image}, {"rmi", image},
	} {
		if _, err := f.podmanCLI(ctx, args...); err != nil {
			return "", err
		}
	}
	return image, nil
}
