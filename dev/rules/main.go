// Command rules fails if the manager's ClusterRole has a rule that nothing used, according
// to audit logs of API servers. The tests write these logs if CAPT_AUDIT_DIR is set; see
// "make unused-rules".
//
//	rules -role config/rbac/role.yaml DIRECTORY
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// manager is the user that has the role.
const manager = "system:serviceaccount:capt-system:capt-controller-manager"

func main() {
	role := flag.String("role", filepath.Join("config", "rbac", "role.yaml"), "file with the ClusterRole")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: rules [-role FILE] DIRECTORY")
		os.Exit(2)
	}
	if err := run(*role, manager, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

func run(role, user, dir string) error {
	granted, err := readRole(role)
	if err != nil {
		return err
	}
	used, err := readLogs(dir, user)
	if err != nil {
		return err
	}
	if len(used) == 0 {
		return fmt.Errorf("the logs in %s have no request of %s", dir, user)
	}
	unused, needless := compare(granted, used, exceptions)
	for _, p := range unused {
		fmt.Println("not used:", p)
	}
	for _, p := range needless {
		fmt.Println("used, and in the list of exceptions:", p)
	}
	if len(unused)+len(needless) > 0 {
		return fmt.Errorf("%d of %d permissions of %s are not used, and %d of %d exceptions are not needed: change the markers of the controllers, or the list in dev/rules/exceptions.go",
			len(unused), len(granted), role, len(needless), len(exceptions))
	}
	fmt.Printf("%d permissions of %s are used or in the list of %d exceptions\n", len(granted), role, len(exceptions))
	return nil
}
