// Command probe is the program that modules of the conformance suite execute. It
// reports created resources to the test and waits until the test opens the gate.
//
//	probe 'SERVER STEP ARGUMENT [STEP ARGUMENT]...'
//
// The steps are: created NAME, wait GATE, print VARIABLE.
package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
)

func main() {
	if err := run(strings.Fields(strings.Join(os.Args[1:], " "))); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args)%2 != 1 {
		return errors.New("usage: probe SERVER STEP ARGUMENT [STEP ARGUMENT …]")
	}
	server := args[0]
	for steps := args[1:]; len(steps) > 0; steps = steps[2:] {
		if steps[0] == "print" {
			fmt.Println(os.Getenv(steps[1]))
			continue
		}
		if err := report(server + "/" + steps[0] + "/" + steps[1]); err != nil {
			return err
		}
	}
	return nil
}

func report(url string) error {
	// Do not use the proxy of the environment.
	client := http.Client{Transport: &http.Transport{}}
	response, err := client.Post(url, "", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
