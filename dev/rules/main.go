// Command rules lists the rules of the manager's ClusterRole that nothing used, according to
// audit logs of API servers. The tests write these logs if CAPT_AUDIT_DIR is set; see
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

func main() {
	role := flag.String("role", filepath.Join("config", "rbac", "role.yaml"), "file with the ClusterRole")
	agent := flag.String("agent", "capt-manager", "prefix of the user agent of the program that has the role")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: rules [-role FILE] DIRECTORY")
		os.Exit(2)
	}
	if err := run(*role, *agent, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

func run(role, agent, dir string) error {
	granted, err := readRole(role)
	if err != nil {
		return err
	}
	used, err := readLogs(dir, agent)
	if err != nil {
		return err
	}
	if len(used) == 0 {
		return fmt.Errorf("the logs in %s have no request of %s", dir, agent)
	}
	unused := subtract(granted, used)
	for _, p := range unused {
		fmt.Println(p)
	}
	fmt.Printf("%d of %d permissions are not used by what the logs have\n", len(unused), len(granted))
	return nil
}
