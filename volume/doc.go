// Package volume keeps the volumes of a host: directories with names, which containers of
// either runtime mount, and which stay when these go.
//
// A volume is a directory of its name with two entries: data, which containers see, and
// volume.json, which says to whom the files in it belong. Each unprivileged container has
// ids of its own, so the files of a volume are given to the container that is about to
// start: [Store.Own] writes down to whom they go, gives each of them, and writes down that
// it has. Doing so again after an interruption goes on.
//
//	DIR/            root alone writes there; users of containers pass through
//	DIR/data/       for the group of the container
//	DIR/.new-data   a volume that is being made, or
//	DIR/.gone-data  removed: swept by the next operation
package volume
