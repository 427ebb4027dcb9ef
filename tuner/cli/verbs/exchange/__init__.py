"""The verbs for records that come from elsewhere, or go there."""
