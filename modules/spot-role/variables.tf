variable "tags" {
  description = "Tags of the role where this module creates it. A role that exists keeps its own."
  type        = map(string)
  default     = {}
  nullable    = false
}
