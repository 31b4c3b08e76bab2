"""The replay of a program over time; the only package that imports simpy."""
