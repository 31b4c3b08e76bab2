"""Launch files of training frameworks and inference engines, read as scenarios, never run.

text --syntax--> options with lines --table of the framework--> keys of a scenario
                                                                ignored, each with its reason
                                                                unknown
"""
