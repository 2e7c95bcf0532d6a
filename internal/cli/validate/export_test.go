package validate

// ContractKind is contractKind.
var ContractKind = contractKind
