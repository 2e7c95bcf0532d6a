import { useMemo } from "preact/hooks";
import { useWords } from "../i18n";
import { Age, DeniedNote, Heading, Mark, Progress, useProblem } from "../parts/common";
import { Counters, NoMatch, RowStatus, Search, select, Selections, useFilter } from "../parts/filters";
import { Virtual } from "../parts/virtual";
import { workspacePath } from "../router";
import { narrow, useStore } from "../store";
import { useList } from "../stream";
import type { WorkspaceRow } from "../types";

/** texts are where the search looks for a workspace, beside its name. */
const texts = (row: WorkspaceRow): (string | undefined)[] => [row.cluster, row.template, row.reason, row.message];

/** Workspaces lists all workspaces, those without a cluster too. */
export function Workspaces() {
  const words = useWords();
  const filter = useFilter();
  const list = useList<WorkspaceRow>("workspaces", "rows");
  const isNarrow = useStore(narrow);
  const all = useMemo(() => [...list.items.values()], [list]);
  const rows = useMemo(() => select(all, filter, texts), [all, filter]);
  const hidden = useProblem("WorkspaceTemplateApply");
  if (hidden || !list.synced)
    return (
      <>
        <Heading>{words.workspaces}</Heading>
        {hidden ? <DeniedNote kinds={["WorkspaceTemplateApply"]} /> : <Progress />}
      </>
    );
  return (
    <>
      <Heading>{words.workspaces}</Heading>
      <Counters rows={all} filter={filter} />
      <div class="filters">
        <Search filter={filter} label={words.searchWorkspaces} />
        <Selections rows={all} filter={filter} />
      </div>
      {!all.length ? (
        <p>{words.noWorkspaces}</p>
      ) : !rows.length ? (
        <NoMatch text={words.noWorkspaceMatches} />
      ) : (
        <>
          <div class="fleet-row workspace-row fleet-head" aria-hidden="true">
            <span />
            <span>{words.name}</span>
            <span>{words.status}</span>
            <span>{words.cluster}</span>
            <span>{words.template}</span>
            <span class="number">{words.inState}</span>
            <span class="number">{words.age}</span>
          </div>
          <Virtual items={rows} height={isNarrow ? 84 : 52} label={words.workspaces} render={(row) => <Line row={row} />} />
        </>
      )}
    </>
  );
}

function Line({ row }: { row: WorkspaceRow }) {
  const words = useWords();
  return (
    <a class="fleet-row workspace-row" href={workspacePath(row.ns, row.name)}>
      <Mark state={row.state} />
      <span class="fleet-name">
        <strong>{row.name}</strong> <span class="quiet">{row.ns}</span>
      </span>
      <RowStatus row={row} what={row.what} />
      <span class="wide">
        <span class="hidden">{words.cluster} </span>
        {row.cluster || <span class="quiet">–</span>}
      </span>
      <span class="wide">
        <span class="hidden">{words.template} </span>
        {row.template}
      </span>
      <span class="wide number" title={words.inState}>
        {row.resources ?? "–"} <span class="hidden">{words.inState}</span>
      </span>
      <span class="number quiet">
        <Age since={row.created} />
      </span>
    </a>
  );
}
