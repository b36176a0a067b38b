// Package backup has the archives of containers: one file with the root directory of a
// container and a manifest that the key of its host has signed.
//
// The file is a tar archive, compressed by zstd, behind which the manifest stands in a
// frame that decompressors skip. So tar --zstd reads it, and so do programs that unpack
// the layers of an image. The manifest says how long the archive is, and its SHA-256 in both
// forms. Nothing of a manifest is believed before its signature is verified, and nothing
// of an archive is unpacked before its bytes are.
package backup
