declare module "virtual:reasons" {
  const reasons: Record<string, { cause: string; command: string }>;
  export default reasons;
}
declare module "*.css";
