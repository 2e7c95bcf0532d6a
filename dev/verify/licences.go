package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licences are the licences of modules that are linked into released programs, with a
// phrase of each text. The first that matches counts.
var licences = []struct{ name, phrase string }{
	{"Apache-2.0", "Apache License"},
	{"MPL-2.0", "Mozilla Public License"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"BSD", "Redistribution and use in source and binary forms"},
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|unlicense)([.-].*)?$`)

// verifyLicences returns an error for each module of the released programs whose licence
// is missing or not in the list.
func verifyLicences(root string) error {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Dir}}{{end}}", "./cmd/...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing the modules of the programs: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	var errs []error
	for _, line := range slices.Compact(lines) {
		module, dir, found := strings.Cut(line, " ")
		if !found || strings.HasPrefix(module, "github.com/appthrust/capt") {
			continue
		}
		if _, err := licenceOf(dir); err != nil {
			errs = append(errs, fmt.Errorf("module %s: %w", module, err))
		}
	}
	return errors.Join(errs...)
}

// licenceOf returns the licence of the module in a directory.
func licenceOf(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return "", err
		}
		plain := strings.Join(strings.Fields(string(text)), " ")
		for _, licence := range licences {
			if strings.Contains(plain, licence.phrase) {
				return licence.name, nil
			}
		}
	}
	return "", errors.New("its licence is missing, or is none of Apache-2.0, BSD, ISC, MIT and MPL-2.0: do not link it into released programs")
}
