import { useEffect, useState } from "preact/hooks";
import { language, useWords } from "./i18n";
import { AddonPage, AddonsPage } from "./pages/addons";
import { ClusterPage } from "./pages/cluster";
import { Events } from "./pages/events";
import { Fleet } from "./pages/fleet";
import { Gone } from "./pages/missing";
import { WorkspacePage } from "./pages/workspace";
import { Workspaces } from "./pages/workspaces";
import { address, parse } from "./router";
import { command, Login, SessionEnded } from "./login";
import { key, login, logout } from "./session";
import { narrow, stored, toast, useStore } from "./store";
import { crowded, link, session } from "./stream";

const theme = stored("capt-theme", "auto");
const themes = ["auto", "light", "dark"] as const;

function Page() {
  const route = parse(useStore(address).split("?")[0]!);
  const words = useWords();
  const title = "name" in route ? route.name : route.page === "missing" ? "404" : words[route.page === "fleet" ? "clusters" : route.page];
  useEffect(() => {
    document.title = `${title} · CAPT`;
  }, [title]);
  switch (route.page) {
    case "fleet":
      return <Fleet />;
    case "workspaces":
      return <Workspaces />;
    case "addons":
      return <AddonsPage />;
    case "events":
      return <Events />;
    case "cluster":
      return <ClusterPage key={route.ns + route.name} ns={route.ns} name={route.name} />;
    case "workspace":
      return <WorkspacePage key={route.ns + route.name} ns={route.ns} name={route.name} />;
    case "addon":
      return <AddonPage key={route.ns + route.name} ns={route.ns} name={route.name} />;
    default:
      return <Gone title="404" />;
  }
}

export function App() {
  const words = useWords();
  const path = useStore(address).split("?")[0]!;
  const chosen = useStore(theme);
  const user = useStore(session);
  const isNarrow = useStore(narrow);
  const state = useStore(link);
  const refusal = useStore(crowded);
  const open = useStore(key) !== "";
  const inCluster = useStore(login).token;
  // A page that had a session stays when that ends.
  const [started, start] = useState(open);
  useEffect(() => {
    if (open) start(true);
  }, [open]);
  const message = useStore(toast);
  useEffect(() => {
    document.documentElement.dataset.theme = chosen;
  }, [chosen]);
  const current = useStore(language);
  useEffect(() => {
    document.documentElement.lang = current;
  }, [current]);
  useEffect(() => {
    if (!message || message.bad) return;
    const timer = setTimeout(() => (toast.value = null), 6000);
    return () => clearTimeout(timer);
  }, [message]);
  const pages: [string, string, RegExp][] = [
    ["/", words.clusters, /^\/($|clusters)/],
    ["/workspaces", words.workspaces, /^\/workspaces/],
    ["/addons", words.addons, /^\/addons/],
    ["/events", words.events, /^\/events/],
  ];
  const nextTheme = themes[(themes.indexOf(chosen as "auto") + 1) % themes.length]!;
  const who = inCluster && user?.user ? `${user.user} · ${user.context}` : user?.context;
  const settings = (
    <>
      <button type="button" class="plain" title={words.theme[chosen as "auto"]} aria-label={words.theme[chosen as "auto"]} onClick={() => (theme.value = nextTheme)}>
        <span aria-hidden="true">{chosen === "dark" ? "☾" : chosen === "light" ? "☀" : "◐"}</span>
      </button>
      <button type="button" class="plain" lang={current === "ja" ? "en" : "ja"} onClick={() => (language.value = current === "ja" ? "en" : "ja")}>
        {current === "ja" ? "English" : "日本語"}
      </button>
      {inCluster && open && (
        <button type="button" class="plain" onClick={() => void logout()}>
          {words.logout}
        </button>
      )}
    </>
  );
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.querySelector<HTMLElement>("h1")?.focus())}>
        {words.skip}
      </a>
      <header class="top">
        <a class="brand" href="/">
          CAPT
        </a>
        <nav aria-label={words.menu}>
          {pages.map(([to, label, match]) => (
            <a key={to} href={to} aria-current={match.test(path) ? "page" : undefined}>
              {label}
            </a>
          ))}
        </nav>
        <span class="end where">
          {open && (
            <span class={"link " + (user?.lost ? "lost" : state)} title={user?.server}>
              {!isNarrow && <span class="where-text">{who}</span>}
              <span class="hidden">{user?.lost ? words.clusterLost : state === "live" ? words.live : words.connecting}</span>
            </span>
          )}
          {isNarrow ? (
            <>
              <button type="button" class="plain" aria-label={words.settings} popovertarget="settings">
                <span aria-hidden="true">⋯</span>
              </button>
              <div id="settings" popover="auto" role="group" aria-label={words.settings}>
                {who && <p>{who}</p>}
                {settings}
              </div>
            </>
          ) : (
            settings
          )}
        </span>
      </header>
      {open && (user?.lost || state === "lost") && (
        <p class="banner" role="alert">
          {state === "lost" ? refusal || (inCluster ? words.serverLost : words.lost(command(location.port))) : `${words.clusterLost} ${user?.lost}`}
        </p>
      )}
      <main id="main">
        {started && user?.namespaces && <p class="quiet">{words.onlyNamespaces(user.namespaces.join(", "))}</p>}
        {open || started ? <Page /> : <Login />}
      </main>
      {started && !open && <SessionEnded />}
      <div class="toasts" aria-live="polite" role="status">
        {message && (
          <div class={"toast" + (message.bad ? " bad" : "")}>
            {message.text}
            <button type="button" class="plain" aria-label={words.close} onClick={() => (toast.value = null)}>
              <span aria-hidden="true">✕</span>
            </button>
          </div>
        )}
      </div>
    </>
  );
}
