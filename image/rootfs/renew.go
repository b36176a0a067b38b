package rootfs

import (
	"errors"
	"io/fs"
	"os"
)

// Renew takes away what a copy of a container must not have in common with it: the id of
// its machine, which its init makes anew, and the keys of its ssh server.
func Renew(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{"etc/machine-id", "var/lib/dbus/machine-id", "var/lib/systemd/random-seed"} {
		if i, err := root.Lstat(name); err == nil && i.Mode().IsRegular() {
			if err := root.WriteFile(name, nil, 0o444); err != nil {
				return err
			}
		}
	}
	ssh, err := root.OpenRoot("etc/ssh")
	if err != nil {
		return nil // it has none
	}
	defer ssh.Close()
	keys, err := fs.Glob(ssh.FS(), "ssh_host_*")
	for _, name := range keys {
		err = errors.Join(err, ssh.Remove(name))
	}
	return err
}
