import { useMemo } from "preact/hooks";
import { useWords } from "../i18n";
import { Age, Command, DeniedNote, Heading, Mark, Progress, useProblem } from "../parts/common";
import { Counters, NoMatch, RowStatus, Search, select, Selections, useFilter } from "../parts/filters";
import { Virtual } from "../parts/virtual";
import { address, addonPath, clusterPath, setQuery } from "../router";
import { narrow, useStore } from "../store";
import { useList } from "../stream";
import type { Row } from "../types";

/** texts are where the search looks for a cluster, beside its name. */
export const texts = (row: Row): (string | undefined)[] => [row.region, row.version, row.reason, row.message];

export function Fleet() {
  const words = useWords();
  const matrix = new URLSearchParams(useStore(address).split("?")[1] ?? "").get("view") === "matrix";
  const filter = useFilter();
  const list = useList<Row>("fleet", "rows");
  const isNarrow = useStore(narrow);
  const all = useMemo(() => [...list.items.values()], [list]);
  const rows = useMemo(() => select(all, filter, texts), [all, filter]);
  const hidden = useProblem("Cluster");
  const hiddenAddons = useProblem("CAPTAddon");
  if (hidden || !list.synced)
    return (
      <>
        <Heading>{words.clusters}</Heading>
        {hidden ? <DeniedNote kinds={["Cluster"]} /> : <Progress />}
      </>
    );

  return (
    <>
      <Heading>{words.clusters}</Heading>
      <Counters rows={all} filter={filter} />
      <div class="filters">
        <Search filter={filter} label={words.search} />
        <Selections rows={all} filter={filter} />
        <div class="choices" role="group" aria-label={words.layout}>
          <button type="button" aria-pressed={!matrix} onClick={() => setQuery("view", "")}>
            {words.list}
          </button>
          <button type="button" aria-pressed={matrix} onClick={() => setQuery("view", "matrix")}>
            {words.matrix}
          </button>
        </div>
      </div>
      {matrix && <DeniedNote kinds={["CAPTAddon"]} />}
      {!all.length ? (
        <Empty />
      ) : !rows.length ? (
        <NoMatch text={words.noMatch} />
      ) : matrix ? (
        !hiddenAddons && <Matrix rows={rows} />
      ) : (
        <>
          <div class="fleet-row fleet-head" aria-hidden="true">
            <span />
            <span>{words.name}</span>
            <span>{words.status}</span>
            <span>{words.version}</span>
            <span>{words.region}</span>
            <span class="number">{words.nodes}</span>
            <span class="number">{words.age}</span>
          </div>
          <Virtual items={rows} height={isNarrow ? 84 : 52} label={words.clusters} render={(row) => <FleetRow row={row} />} />
        </>
      )}
    </>
  );
}

function FleetRow({ row }: { row: Row }) {
  const words = useWords();
  return (
    <a class="fleet-row" href={clusterPath(row.ns, row.name)}>
      <Mark state={row.state} />
      <span class="fleet-name">
        <strong>{row.name}</strong> <span class="quiet">{row.ns}</span>
      </span>
      <RowStatus row={row} what={row.attention?.[0]?.what} />
      <span class="wide">{row.version}</span>
      <span class="wide">{row.region}</span>
      <span class="wide number" title={words.nodes}>
        {row.nodes ? `${row.ready}/${row.nodes}` : "–"}
      </span>
      <span class="number quiet">
        <Age since={row.created} />
      </span>
    </a>
  );
}

function Matrix({ rows }: { rows: Row[] }) {
  const words = useWords();
  const addons = useMemo(() => [...new Set(rows.flatMap((row) => Object.keys(row.addons ?? {})))].sort(), [rows]);
  const columns = { "--columns": addons.length };
  return (
    <div class="scroll matrix" role="region" tabIndex={0} aria-label={words.matrix} style={columns}>
      <div class="matrix-row matrix-head" aria-hidden="true">
        <span>{words.name}</span>
        {addons.map((addon) => (
          <span key={addon}>{addon}</span>
        ))}
      </div>
      <Virtual
        items={rows}
        height={44}
        label={words.matrix}
        render={(row) => (
          <div class="matrix-row">
            <a href={clusterPath(row.ns, row.name)}>
              {row.name} <span class="quiet">{row.ns}</span>
            </a>
            {addons.map((addon) => {
              const badge = row.addons?.[addon];
              return (
                <span key={addon}>
                  {badge ? (
                    <a href={addonPath(row.ns, addon)} title={`${addon}: ${badge.reason ?? ""}`}>
                      <Mark state={badge.state} />
                      <span class="hidden">{addon}</span>
                    </a>
                  ) : (
                    <span class="quiet">–</span>
                  )}
                </span>
              );
            })}
          </div>
        )}
      />
    </div>
  );
}

function Empty() {
  const words = useWords();
  return (
    <div class="empty">
      <h2>{words.noClusters}</h2>
      <p>{words.createHint}</p>
      <Command text="captctl generate cluster demo --flavor local | kubectl apply -f -" />
    </div>
  );
}
