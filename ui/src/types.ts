// What internal/web/types.go sends; a Go test compares the fields.

export type State = "Ready" | "Waiting" | "Attention" | "Failed" | "Unknown" | "";

export interface Problem {
  error: string;
  missing?: string;
  role?: string;
}

export interface Login {
  token?: boolean;
  provider?: string;
  user?: string;
  key?: string;
}

export interface Session {
  context: string;
  server: string;
  user?: string;
  namespaces?: string[];
  denied?: Denied[];
  loading?: Loading;
  lost?: string;
}

export interface Denied {
  kind: string;
  missing?: string;
  role?: string;
  absent?: boolean;
  error?: string;
}

export interface Loading {
  done: number;
  total: number;
}

export interface Row {
  ns: string;
  name: string;
  state: State;
  reason?: string;
  message?: string;
  since?: string;
  version?: string;
  region?: string;
  created: string;
  ready: number;
  nodes: number;
  attention?: Attention[];
  addons?: Record<string, Badge>;
  drift?: number;
  policy?: PolicyAction;
  failing?: number;
  paused?: boolean;
  deleting?: boolean;
}

export interface Badge {
  state: State;
  reason?: string;
}

export interface Attention {
  what: string;
  workspace: string;
}

export interface WorkspaceRow {
  ns: string;
  name: string;
  state: State;
  reason?: string;
  message?: string;
  created: string;
  cluster?: string;
  template: string;
  resources?: number;
  what?: string;
  drift?: number;
  policy?: PolicyAction;
  paused?: boolean;
  deleting?: boolean;
}

export interface Rows<T> {
  rows?: T[];
  removed?: string[];
}

export interface Progress {
  operation: string;
  phase?: string;
  done: number;
  total: number;
  current?: string;
  action?: string;
  currentSince?: string;
}

export interface Node {
  kind: string;
  name?: string;
  state?: State;
  reason?: string;
  message?: string;
  since?: string;
  progress?: Progress;
  children?: Node[];
}

export interface Cluster {
  row: Row;
  endpoint?: string;
  tree: Node;
  conditions: Condition[];
  timeline: Span[];
  events: Event[];
}

export interface Condition {
  object: string;
  type: string;
  state: State;
  reason: string;
  message?: string;
  since?: string;
}

export interface ResourceChange {
  address: string;
  action: string;
}

export type PolicyAction = "Deny" | "RequireApproval" | "Warn";

export interface PolicyViolation {
  kind: string;
  policy: string;
  generation?: number;
  rule: string;
  action: PolicyAction;
  message: string;
  resources?: string[];
  count?: number;
}

export interface PlanStatus {
  id: string;
  operation?: string;
  run?: string;
  createdAt?: string;
  waiting?: boolean;
  approvedBy?: string;
  approvedAt?: string;
  comment?: string;
  add: number;
  change: number;
  destroy: number;
  changes?: ResourceChange[];
  omittedChanges?: number;
  blocked?: string[];
  policyAction?: PolicyAction;
  violations?: PolicyViolation[];
}

export interface RunStatus {
  id: string;
  operation: string;
  startedAt?: string;
  progress?: { phase?: string; done: number; total: number; current?: { address: string; action?: string; since?: string }[] };
}

export interface RunRecord {
  id: string;
  operation: string;
  outcome: string;
  startedAt?: string;
  duration?: string;
  summary?: string;
}

export interface Workspace {
  ns: string;
  name: string;
  cluster?: string;
  created: string;
  deleting?: boolean;
  node: Node;
  template: string;
  source?: string;
  revision?: string;
  plan?: PlanStatus;
  run?: RunStatus;
  history?: RunRecord[];
  runs: number;
  failure?: { reason: string; message?: string; attempts: number; nextAt?: string };
  drift?: { checkedAt?: string; failedAt?: string; failure?: string; resources?: ResourceChange[] };
  state?: { backend?: string; resources?: number; serial?: number; confirmation?: string };
  outputs?: Record<string, unknown>;
  outputSecret?: string;
  conditions: Condition[];
}

export interface Addon {
  ns: string;
  name: string;
  state: State;
  reason?: string;
  message?: string;
  chart?: string;
  version?: string;
  ready: number;
  matched: number;
  failed: number;
  clusters?: AddonCluster[];
}

export interface AddonCluster {
  name: string;
  state: State;
  reason?: string;
  message?: string;
  since?: string;
  attempts?: number;
}

export interface Addons {
  addons?: Addon[];
  removed?: string[];
}

export interface Event {
  id: string;
  ns: string;
  kind: string;
  name: string;
  warning?: boolean;
  reason: string;
  message?: string;
  count?: number;
  last: string;
}

export interface Span {
  lane: string;
  label: string;
  start: string;
  end?: string;
  state: State;
  workspace?: string;
  gap?: boolean;
  change?: "Create" | "Upgrade" | "Delete";
}

export interface PlanLine {
  plan?: Plan;
  entry?: Entry;
  end?: PlanEnd;
}

export interface PlanEnd {
  details: boolean;
  missing?: string;
  error?: string;
}

export interface Can {
  change: boolean;
  approve: boolean;
  state: boolean;
  secrets: boolean;
}

export interface Plan extends PlanStatus {
  workspace: string;
  resources?: { address: string; action: string; reason?: string }[];
  outputsOnly?: boolean;
}

export type Step = string | number | { removed?: number; added?: number };

export interface Attribute {
  path: Step[];
  action: string;
  before?: unknown;
  after?: unknown;
  unknown?: boolean;
  sensitive?: boolean;
  replaces?: boolean;
}

export interface Resource {
  address: string;
  previousAddress?: string;
  action: string;
  createFirst?: boolean;
  reason?: string;
  importID?: string;
  attributes?: Attribute[];
  unchanged?: number;
  omitted?: number;
}

export interface Entry {
  resource?: Resource;
  drift?: Resource;
  output?: { name: string; action: string; attributes?: Attribute[] };
  omitted?: number;
}

export interface Snapshot {
  name: string;
  kind: string;
  run: string;
  taken: string;
  serial?: number;
  resources?: number;
  restored?: boolean;
}

export interface Lock {
  id: string;
  who?: string;
  operation?: string;
  created?: string;
  holder: string;
  where?: string;
}
