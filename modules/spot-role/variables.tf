variable "tags" {
  description = "Tags of the role if this module creates it. An existing role keeps its tags."
  type        = map(string)
  default     = {}
  nullable    = false
}
