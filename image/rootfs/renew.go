package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// identities are files that say which machine this is, or that make it guessable.
var identities = []string{"etc/machine-id", "var/lib/dbus/machine-id", "var/lib/systemd/random-seed"}

// The directory of the keys of an ssh server, and what they are called.
const (
	sshDir  = "etc/ssh"
	sshKeys = "ssh_host_*"
)

// isKey reports whether a path is that of a key of an ssh server.
func isKey(name string) bool {
	match, _ := path.Match(sshDir+"/"+sshKeys, name) // the pattern is well formed
	return match
}

// Renew takes away what a copy of a container must not have in common with it: the id of
// its machine, which its init makes anew, and the keys of its ssh server.
func Renew(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range identities {
		if i, err := root.Lstat(name); err == nil && i.Mode().IsRegular() {
			if err := root.WriteFile(name, nil, 0o444); err != nil {
				return err
			}
		}
	}
	ssh, err := root.OpenRoot(sshDir)
	if err != nil {
		return nil // it has none
	}
	defer ssh.Close()
	keys, err := fs.Glob(ssh.FS(), sshKeys)
	for _, name := range keys {
		err = errors.Join(err, ssh.Remove(name))
	}
	return err
}
