"""The options of the source, from text to one frozen value.

In come the options that a user set; out comes ``SourceOptions``, or one error that names option and remedy.  ``source_options``
declares our options, ``table`` adds those that are read together, ``kafka_settings`` has each ``kafka.*`` name,
``client_defaults`` what our clients set by these names.
``security_settings`` translates stores and logins and hides secrets, ``connection_settings`` reads the settings of our own
connections.  No thread, no socket; files are read only where an option names one.
"""
