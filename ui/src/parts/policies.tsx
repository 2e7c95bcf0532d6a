import { useWords } from "../i18n";
import type { PlanStatus, PolicyAction, State } from "../types";

/** policyActions are what rules do, the strictest first. */
export const policyActions: PolicyAction[] = ["Deny", "RequireApproval", "Warn"];

const states: Record<PolicyAction, State> = { Deny: "Failed", RequireApproval: "Attention", Warn: "Attention" };

/** PolicyBadge is what policies decided. */
export function PolicyBadge({ action }: { action: PolicyAction }) {
  const words = useWords();
  return <span class={"badge " + states[action]}>{words.policyActions[action]}</span>;
}

/** Violations lists the rules of policies that a plan violates. */
export function Violations({ plan }: { plan: PlanStatus }) {
  const words = useWords();
  if (!plan.violations?.length) return null;
  return (
    <ul role="list" class="violations" aria-label={words.policies}>
      {plan.violations.map((v, i) => {
        const shown = v.resources ?? [];
        const more = (v.count ?? 0) - shown.length;
        return (
          <li key={i}>
            <PolicyBadge action={v.action} /> {v.message}{" "}
            <span class="quiet">{words.violationOf(v.kind, v.policy, v.rule)}</span>
            {!!shown.length && (
              <span class="message">
                {shown.map((address) => (
                  <code key={address}>{address} </code>
                ))}
                {more > 0 && <span class="quiet">{words.andMore(more)}</span>}
              </span>
            )}
          </li>
        );
      })}
    </ul>
  );
}
