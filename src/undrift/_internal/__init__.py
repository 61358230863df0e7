"""Helpers shared by the whole package. Nothing here is public: names and places may change in any release."""
