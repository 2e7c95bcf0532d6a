package cli

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/web"
)

const (
	// printedLink is how long a printed link can be opened, openedLink one that is
	// passed to the browser.
	printedLink = 10 * time.Minute
	openedLink  = time.Minute
	// keptLink is how long a link in a file can be opened.
	keptLink = 12 * time.Hour
)

func newUICommand(o *Options) *cobra.Command {
	var port uint16
	var noBrowser bool
	var linkFile string
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show clusters, workspaces and add-ons in the browser",
		Long: `Show clusters, workspaces and add-ons in the browser: which of them need you, what
takes how long, plans with the values they change, logs, events. Plans can be
approved and runs be repeated there.

The page is served on this machine only, and works with the permissions of your
kubeconfig. A link opens it once; press Enter for another one.`,
		Example: `  captctl ui
  captctl ui -n team-a
  captctl ui --port 8082 --no-browser`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveUI(cmd.Context(), o, port, !noBrowser, linkFile)
		},
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "Port on the loopback interface. 0 chooses a free one.")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "Print the link only.")
	cmd.Flags().StringVar(&linkFile, "link-file", "", "Keep a link that was not used in this file, which only you can read, instead of printing one.")
	return cmd
}

func serveUI(ctx context.Context, o *Options, port uint16, open bool, linkFile string) error {
	config, err := o.Config()
	if err != nil {
		return err
	}
	namespace, err := o.Namespace()
	if err != nil {
		return err
	}
	server, err := web.New(web.Options{Config: config, Context: o.contextName(), Namespace: namespace, OnlyNamespace: *o.Kube.Namespace != ""})
	if err != nil {
		return err
	}
	listeners, err := listenLoopback(ctx, port)
	if err != nil {
		return err
	}
	if err := server.Listen(listeners...); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	if !web.Built() {
		fmt.Fprintln(o.Err, "This program was built without the page: run make ui build, which needs npm.")
	}
	if linkFile != "" {
		return keepLink(ctx, server, linkFile, served)
	}
	fmt.Fprintf(o.Out, "Open this link, which works once: %s\n", server.Link(printedLink))
	if open && hasDesktop() && text.IsTerminal(o.Out) {
		if err := openBrowser(ctx, server.Link(openedLink)); err != nil {
			fmt.Fprintf(o.Err, "The browser was not opened: %v\n", err)
		}
	}
	if text.IsTerminal(o.In) {
		fmt.Fprintln(o.Out, "Press Enter for another link, Ctrl-C to stop.")
		go func() {
			for lines := bufio.NewScanner(o.In); lines.Scan(); {
				fmt.Fprintln(o.Out, server.Link(printedLink))
			}
		}()
	}
	return <-served
}

// keepLink keeps a link that was not used in a file until the server ends.
func keepLink(ctx context.Context, server *web.Server, path string, served <-chan error) error {
	defer func() { _ = os.Remove(path) }()
	for {
		partial := path + ".new"
		if err := os.WriteFile(partial, []byte(server.Link(keptLink)+"\n"), 0o600); err != nil {
			return fmt.Errorf("writing the link: %w", err)
		}
		if err := os.Rename(partial, path); err != nil {
			return fmt.Errorf("writing the link: %w", err)
		}
		select {
		case <-ctx.Done():
			return <-served
		case err := <-served:
			return err
		case <-server.Opened():
		case <-time.After(keptLink - time.Minute):
		}
	}
}

// listenLoopback listens on a port of the loopback interface, with IPv4 and, if the
// machine has it, IPv6.
func listenLoopback(ctx context.Context, port uint16) ([]net.Listener, error) {
	var config net.ListenConfig
	four, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return nil, fmt.Errorf("listening on the loopback interface: %w: choose another port with --port, or none for a free one", err)
	}
	_, chosen, err := net.SplitHostPort(four.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("reading the port: %w", err)
	}
	listeners := []net.Listener{four}
	if six, err := config.Listen(ctx, "tcp6", net.JoinHostPort("::1", chosen)); err == nil {
		listeners = append(listeners, six)
	}
	return listeners, nil
}

// hasDesktop reports whether the machine can show a browser.
func hasDesktop() bool {
	return runtime.GOOS == "darwin" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// openBrowser opens a link in the user's browser. The link is in a file that only the
// user reads, because other users of the machine see the arguments of programs.
func openBrowser(ctx context.Context, link string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("finding the cache directory: %w", err)
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return fmt.Errorf("creating the cache directory: %w", err)
	}
	dir, err := os.MkdirTemp(cache, "capt-ui-")
	if err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = os.RemoveAll(dir) })
	time.AfterFunc(openedLink, func() { _ = os.RemoveAll(dir) })
	page := filepath.Join(dir, "open.html")
	content := fmt.Sprintf("<!DOCTYPE html>\n<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n", html.EscapeString(link))
	if err := os.WriteFile(page, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing the link: %w", err)
	}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	if err := exec.CommandContext(ctx, program, page).Start(); err != nil {
		return fmt.Errorf("starting %s: %w", program, err)
	}
	return nil
}
