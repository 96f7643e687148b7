"""Schedules written for other tools' runtimes: transfers as messages, their order, thread blocks, and files that our own judge has read."""
