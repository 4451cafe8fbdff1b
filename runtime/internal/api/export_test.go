package api

// FieldNames returns the names of the members of an item's document.
func FieldNames() []string { return fieldNames }
