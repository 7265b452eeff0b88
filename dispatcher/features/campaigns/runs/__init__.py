"""Runs of campaigns: what deployments come to, and what operators do to them."""
