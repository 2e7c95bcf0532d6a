declare module "virtual:reasons" {
  const reasons: Record<string, { cause: string; command: string; section: string }>;
  export default reasons;
}
declare module "*.css";
