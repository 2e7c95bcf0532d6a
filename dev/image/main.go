// Command image packs programs into a container image without a base image, a daemon
// or a network. Its output is a docker-archive for `ctr images import`, `docker load`
// and `podman load`.
//
//	image -tag NAME:TAG -o FILE.tar [-entrypoint /PROGRAM] /IN/IMAGE=FILE...
//
// The programs must be static. The image runs as an unprivileged user. The same files
// result in the same image, byte for byte.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	tag := flags.String("tag", "", "name and tag of the image")
	out := flags.String("o", "", "file to write")
	entrypoint := flags.String("entrypoint", "", "program that the image starts")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "Usage: image -tag NAME:TAG -o FILE.tar [-entrypoint /PROGRAM] /IN/IMAGE=FILE...\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *tag == "" || *out == "" || flags.NArg() == 0 {
		return errors.New("-tag, -o and at least one /IN/IMAGE=FILE are required")
	}
	img := image{tag: *tag, entrypoint: *entrypoint}
	for _, arg := range flags.Args() {
		target, source, found := strings.Cut(arg, "=")
		if !found || !path.IsAbs(target) {
			return fmt.Errorf("%q is not of the form /IN/IMAGE=FILE", arg)
		}
		img.files = append(img.files, file{target: path.Clean(target)[1:], source: source})
	}
	return img.write(*out)
}
