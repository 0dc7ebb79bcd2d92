package server

import (
	"strings"

	"github.com/google/uuid"
)

// OwnerMark stands in a token between the UUID and the owner's label.
const OwnerMark = " "

// Owner returns the label in a token, or "" if it has none or is not one of ours.
func Owner(token string) string {
	id, label, ok := strings.Cut(token, OwnerMark)
	if !ok || uuid.Validate(id) != nil {
		return ""
	}
	return label
}
