"""The options of the source, from text to one frozen value.

In come the options that a user set; out comes ``SourceOptions``, or one error that names option and remedy.
``table`` has every option of ours, ``kafka_settings`` and ``security_settings`` what becomes of each ``kafka.*`` name,
``connection_settings`` what our own connections honour.  No thread, no socket; files are read only where an option names
one.
"""
