"""Conditions under which people saw operators fail, hang or crawl, found in a graph."""
