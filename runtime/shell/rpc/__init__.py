"""The run's port, by which agents, tasks and tools reach the coordinator.

``flight`` has both ends (Arrow Flight over mutual TLS), ``certificates`` makes the run's certificates, ``endpoint`` has the address
and credentials for tasks, ``connection_file`` those for tools.  Each request runs in a thread of Flight's; each agent's pushed
events leave through a queue of their own.

And processes: ``threads`` supervises them (no thread dies unseen), ``shutdown`` ends what a process leaves, ``executor`` starts an agent,
``clock`` is the one clock in milliseconds.
"""
